//! The commands on a stack that is named: by its tables, or as `CloudFormation` knows it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;

use crate::support::{Workspace, json, text, wait_until};

const FILE: &str = "events/deliveries/stripe-invoice-paid.json";
const KEY: &str = "evt_1SampleInvoicePaid";

/// A `CloudFormation` that knows one stack, for as many questions as are asked.
fn cloudformation(outputs: &[(&str, &str)]) -> String {
    let member = |(name, value): &(&str, &str)| {
        format!("<member><OutputKey>{name}</OutputKey><OutputValue>{value}</OutputValue></member>")
    };
    let outputs: String = outputs.iter().map(member).collect();
    let body = format!(
        "<DescribeStacksResponse><DescribeStacksResult><Stacks><member><StackName>inbox</StackName>\
         <CreationTime>2026-01-01T00:00:00Z</CreationTime><StackStatus>CREATE_COMPLETE</StackStatus>\
         <Outputs>{outputs}</Outputs></member></Stacks></DescribeStacksResult></DescribeStacksResponse>"
    );
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.unwrap());
            let mut line = String::new();
            while reader.read_line(&mut line).unwrap() > 2 {
                line.clear();
            }
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/xml\r\ncontent-length: {}\r\nconnection: close",
                body.len()
            );
            write!(reader.get_mut(), "{head}\r\n\r\n{body}").unwrap();
        }
    });
    url
}

#[test]
fn a_named_stack_is_read_as_the_running_one() {
    let workspace = Workspace::new();
    let _running = workspace.dev(&["dev", "--port", "0"]);
    assert!(workspace.run(&["send", "--provider", "stripe", "--file", FILE]).status.success());
    wait_until("it is applied", || json(&workspace.run(&["list", "--json"]))[0]["outcome"] == "APPLIED");
    let here = json(&workspace.run(&["show", "stripe", KEY, "--json"]));
    let mut variables = workspace.environment();
    let value = |name: &str| variables.iter().find(|(it, _)| it == name).unwrap().1.clone();
    let (inbox, domain, queue) =
        (value("HOOKONCE_INBOX_TABLE"), value("HOOKONCE_DOMAIN_TABLE"), value("HOOKONCE_QUEUE_URL"));
    let cloudformation_url = cloudformation(&[("InboxTable", &inbox), ("DomainTable", &domain)]);
    variables.push(("AWS_ENDPOINT_URL_CLOUDFORMATION".to_owned(), cloudformation_url));
    // Another folder has no running stack to fall back to.
    let elsewhere = Workspace::new();
    for target in [&["--stack", "inbox"][..], &["--table", &inbox, "--queue-url", &queue]] {
        let shown = elsewhere.run_with_environment(&[&["show", "stripe", KEY, "--json"], target].concat(), &variables);
        assert_eq!(json(&shown), here, "{target:?}");
        let listed = elsewhere.run_with_environment(&[&["list", "--json"], target].concat(), &variables);
        assert_eq!(json(&listed)[0], here, "{target:?}");
    }
}

#[test]
fn a_stack_of_another_kind_is_wrong_usage_and_an_absent_one_unavailable() {
    let workspace = Workspace::new();
    let mut variables = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"]
        .map(|name| (name.to_owned(), "us-east-1".to_owned()))
        .to_vec();
    variables.push(("AWS_ENDPOINT_URL_CLOUDFORMATION".to_owned(), cloudformation(&[("Other", "x")])));
    let other = workspace.run_with_environment(&["list", "--stack", "inbox"], &variables);
    assert_eq!(other.status.code(), Some(2), "{}", text(&other));
    assert!(text(&other).contains("has no output InboxTable"), "{}", text(&other));
    variables.last_mut().unwrap().1 = "http://127.0.0.1:9".to_owned();
    let absent = workspace.run_with_environment(&["list", "--stack", "inbox"], &variables);
    assert_eq!(absent.status.code(), Some(3), "{}", text(&absent));
}
