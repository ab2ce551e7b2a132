//! The commands on a named stack: by its tables, or by the parameter that the template writes.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json as object};

use crate::support::{Workspace, json, root, text, wait_until};

const FILE: &str = "events/deliveries/stripe-invoice-paid.json";
const KEY: &str = "evt_1SampleInvoicePaid";

/// A Parameter Store that gives the same answer to every request.
struct ParameterStore {
    url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

/// The parameter that a request named, and who signed it.
struct Asked {
    parameter: Value,
    authorization: String,
}

impl ParameterStore {
    /// A server where every parameter has this value.
    fn holding(value: &str) -> Self {
        Self::answering("200 OK", &object!({ "Parameter": { "Value": value } }))
    }

    fn answering(status: &'static str, answer: &Value) -> Self {
        let (answer, asked) = (answer.to_string(), Arc::<Mutex<Vec<Asked>>>::default());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = BufReader::new(stream.unwrap());
                seen.lock().unwrap().push(Asked::read(&mut stream));
                let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close", answer.len());
                write!(stream.get_mut(), "{head}\r\n\r\n{answer}").unwrap();
            }
        });
        Self { url, asked }
    }

    /// The environment that points the SDK to it, with these variables added.
    fn environment(&self, more: &[(&str, &str)]) -> Vec<(String, String)> {
        let own = [
            ("AWS_ENDPOINT_URL_SSM", self.url.as_str()),
            ("AWS_EC2_METADATA_DISABLED", "true"),
            ("AWS_SHARED_CREDENTIALS_FILE", "none"),
            ("AWS_CONFIG_FILE", "none"),
        ];
        own.iter().chain(more).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }
}

impl Asked {
    fn read(stream: &mut BufReader<TcpStream>) -> Self {
        let (mut line, mut length, mut authorization) = (String::new(), 0, String::new());
        while stream.read_line(&mut line).unwrap() > 2 {
            match line.trim_end().split_once(": ") {
                Some(("content-length", value)) => length = value.parse().unwrap(),
                Some(("authorization", value)) => value.clone_into(&mut authorization),
                Some(_) | None => {}
            }
            line.clear();
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        Self { parameter: body["Name"].clone(), authorization }
    }
}

/// The value that the template writes for a stack with these parts.
fn written_by_the_template(parts: &[(&str, &str)]) -> String {
    let template = std::fs::read_to_string(root().join("template.yaml")).unwrap();
    let (_, resource) = template.split_once("Name: !Sub /hookonce/${AWS::StackName}/outputs").unwrap();
    let (_, value) = resource.split_once("Value: !Sub '").unwrap();
    let (value, _) = value.split_once('\'').unwrap();
    parts.iter().fold(value.to_owned(), |value, (name, part)| value.replace(&format!("${{{name}}}"), part))
}

/// Credentials in the environment, and a region.
const SIGNED_IN: [(&str, &str); 3] =
    [("AWS_ACCESS_KEY_ID", "local"), ("AWS_SECRET_ACCESS_KEY", "local"), ("AWS_REGION", "us-east-1")];

#[test]
fn a_named_stack_is_read_as_the_running_one() {
    let workspace = Workspace::new();
    let _running = workspace.dev(&["dev", "--port", "0"]);
    assert!(workspace.run(&["send", "--provider", "stripe", "--file", FILE]).status.success());
    wait_until("it is applied", || json(&workspace.run(&["list", "--json"]))[0]["outcome"] == "APPLIED");
    let here = json(&workspace.run(&["list", "--json"]));
    let mut variables = workspace.environment();
    let value = |name: &str| variables.iter().find(|(it, _)| it == name).unwrap().1.clone();
    let (inbox, domain, queue) =
        (value("HOOKONCE_INBOX_TABLE"), value("HOOKONCE_DOMAIN_TABLE"), value("HOOKONCE_QUEUE_URL"));
    let parts =
        [("InboxTable", inbox.as_str()), ("DomainTable", &domain), ("HintQueue", &queue), ("IndexShardsRead", "32")];
    let parameters = ParameterStore::holding(&written_by_the_template(&parts));
    variables.extend(parameters.environment(&[]));
    // A folder without a running stack.
    let elsewhere = Workspace::new();
    for target in [&["--stack", "inbox"][..], &["--table", &inbox, "--queue-url", &queue]] {
        let listed = elsewhere.run_with_environment(&[&["list", "--json"], target].concat(), &variables);
        assert_eq!(json(&listed), here, "{target:?}");
        let shown = elsewhere.run_with_environment(&[&["show", "stripe", KEY, "--json"], target].concat(), &variables);
        let shown = json(&shown);
        let same = here[0].as_object().unwrap().iter().all(|(name, value)| shown[name] == *value);
        assert!(same, "{target:?}: {shown}");
    }
    assert_eq!(parameters.asked.lock().unwrap()[0].parameter, "/hookonce/inbox/outputs");
}

#[test]
fn a_stack_that_is_not_found_says_why_and_what_to_do() {
    let workspace = Workspace::new();
    let refusal = |code: &str| ParameterStore::answering("400 Bad Request", &object!({ "__type": code }));
    for (parameters, exit, said) in [
        (ParameterStore::holding("{}"), 2, "deploy the stack again from hookonce's template.yaml"),
        (refusal("ParameterNotFound"), 2, "check the stack's name and the AWS region"),
        (refusal("ValidationException"), 2, "pass the stack's name alone"),
        (refusal("AccessDeniedException"), 3, "ask for the permission ssm:GetParameter"),
        (refusal("ExpiredTokenException"), 3, "sign in again"),
        (refusal("InternalServerError"), 3, "check the credentials"),
    ] {
        let listed = workspace.run_with_environment(&["list", "--stack", "inbox"], &parameters.environment(&SIGNED_IN));
        assert_eq!(listed.status.code(), Some(exit), "{}", text(&listed));
        assert!(text(&listed).contains(said), "{}", text(&listed));
    }
    let mut away = ParameterStore::holding("{}");
    "http://127.0.0.1:9".clone_into(&mut away.url);
    let listed = workspace.run_with_environment(&["list", "--stack", "inbox"], &away.environment(&SIGNED_IN));
    assert_eq!(listed.status.code(), Some(3), "{}", text(&listed));
    let nowhere = workspace.run_with_environment(&["list", "--stack", "inbox"], &away.environment(&SIGNED_IN[..2]));
    assert_eq!(nowhere.status.code(), Some(2), "{}", text(&nowhere));
    assert!(text(&nowhere).contains("set AWS_DEFAULT_REGION"), "{}", text(&nowhere));
}

#[test]
fn without_credentials_one_line_says_so() {
    let workspace = Workspace::new();
    let parameters = ParameterStore::holding("{}");
    let variables = parameters.environment(&[("AWS_REGION", "us-east-1"), ("HOME", "none")]);
    for target in [["--stack", "inbox"], ["--table", "inbox"]] {
        let listed = workspace.run_with_environment(&[&["list", "--log", "error"][..], &target].concat(), &variables);
        assert_eq!(listed.status.code(), Some(3), "{}", text(&listed));
        let said = String::from_utf8(listed.stderr).unwrap();
        let lines: Vec<_> = said.lines().collect();
        assert_eq!(lines[0], "error: no AWS credentials were found");
        assert!(lines[1].starts_with("  try: sign in") && lines.len() == 2, "{said}");
    }
}

/// The signatures that the command makes with this profile, and its output.
fn listed_under(profile: &str) -> (Vec<String>, String) {
    let workspace = Workspace::new();
    let parameters = ParameterStore::holding("{}");
    let config = workspace.write("config", format!("[profile test]\nregion = eu-central-1\n{profile}").as_bytes());
    // The person who runs the tests may be signed in. The command must not find those credentials.
    let variables = parameters.environment(&[("AWS_CONFIG_FILE", &config), ("AWS_PROFILE", "test"), ("HOME", "none")]);
    let listed = workspace.run_with_environment(&["list", "--stack", "inbox"], &variables);
    let asked = parameters.asked.lock().unwrap();
    (asked.iter().map(|asked| asked.authorization.clone()).collect(), text(&listed))
}

#[cfg(unix)]
#[test]
fn a_profile_may_get_its_credentials_from_a_process() {
    let script = tempfile::NamedTempFile::new().unwrap();
    let credentials = object!({ "Version": 1, "AccessKeyId": "AKIDOFTHEPROCESS", "SecretAccessKey": "secret" });
    std::fs::write(script.path(), format!("echo '{credentials}'")).unwrap();
    let (signed, said) = listed_under(&format!("credential_process = sh {}\n", script.path().display()));
    assert!(signed.len() == 1 && signed[0].contains("Credential=AKIDOFTHEPROCESS/"), "{signed:?}\n{said}");
    assert!(signed[0].contains("/eu-central-1/ssm/aws4_request"), "{signed:?}");
}

/// Nobody is signed in, so the command must fail, but not because the SDK lacks a feature for this profile.
#[test]
fn a_profile_may_sign_in_on_a_web_page() {
    for (profile, said) in [
        (
            "sso_session = corp\nsso_account_id = 123456789012\nsso_role_name = Reader\n\n[sso-session corp]\n\
             sso_region = us-east-1\nsso_start_url = https://example.invalid/start\n",
            "failed to load the cached SSO token",
        ),
        ("login_session = arn:aws:iam::123456789012:user/reader\n", "/.aws/login/cache/"),
    ] {
        let (signed, answer) = listed_under(profile);
        assert!(signed.is_empty(), "{signed:?}");
        assert!(answer.contains(said) && !answer.contains("feature"), "{answer}");
    }
}
