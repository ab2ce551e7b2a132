//! The addresses and signatures of operations that are called without their service's SDK.

use aws_sdk_dynamodb::config::{Credentials, Region, SharedCredentialsProvider};
use hookonce_aws::{SdkConfig, SignedService};
use hookonce_runtime::ambient::{Ambient as _, System};

use super::sdk::signed_at;

#[tokio::test]
async fn a_signed_request_goes_to_the_services_address() {
    let service = SignedService { name: "lambda", id: "Lambda" };
    let identity = Credentials::new("AKID", "secret", None, None, "test");
    let config = |region: &'static str, url: Option<&str>| {
        let mut config = SdkConfig::builder().region(Region::new(region));
        config.set_endpoint_url(url.map(str::to_owned));
        config.credentials_provider(SharedCredentialsProvider::new(identity.clone())).build()
    };
    for (region, url, uri, host) in [
        ("eu-west-1", None, "https://lambda.eu-west-1.amazonaws.com/a", "lambda.eu-west-1.amazonaws.com"),
        ("cn-north-1", None, "https://lambda.cn-north-1.amazonaws.com.cn/a", "lambda.cn-north-1.amazonaws.com.cn"),
        ("eu-west-1", Some("http://127.0.0.1:9/proxy/"), "http://127.0.0.1:9/proxy/a", "127.0.0.1:9"),
    ] {
        let config = config(region, url);
        let request = service.request(&config, "POST", "/a", &[("x-amz-kind", "one")], b"{}".to_vec()).await.unwrap();
        assert_eq!((request.uri(), request.headers().get("host")), (uri, Some(host)));
        assert_eq!((request.method(), request.body().bytes()), ("POST", Some(&b"{}"[..])));
        assert_eq!(request.headers().get("x-amz-kind"), Some("one"));
        let late = System.moment().now.as_seconds().0 - signed_at(request.headers().get("x-amz-date").unwrap());
        assert!((0..60).contains(&late), "signed {late} s ago");
        let signature = request.headers().get("authorization").unwrap();
        assert!(signature.contains(&format!("/{region}/lambda/aws4_request")), "{signature}");
        assert!(signature.contains("SignedHeaders=host;x-amz-date;x-amz-kind"), "{signature}");
    }
    let fips = config("us-east-1", None).into_builder().use_fips(true).build();
    let dual_stack = config("us-east-1", None).into_builder().use_dual_stack(true).build();
    for config in [fips, dual_stack, config("us-iso-east-1", None), config("eusc-de-east-1", None)] {
        let refused = service.request(&config, "POST", "/a", &[], Vec::new()).await.unwrap_err().to_string();
        assert!(refused.ends_with("name one in AWS_ENDPOINT_URL_LAMBDA"), "{refused}");
    }
    let named = config("us-iso-east-1", Some("http://127.0.0.1:9")).into_builder().use_fips(true).build();
    assert!(service.request(&named, "POST", "/a", &[], Vec::new()).await.is_ok(), "a named address is taken as it is");
}

#[tokio::test]
async fn a_request_that_cannot_be_signed_names_the_cause() {
    let service = SignedService { name: "lambda", id: "Lambda" };
    let nowhere = SdkConfig::builder().build();
    let nobody = SdkConfig::builder().region(Region::new("eu-west-1")).build();
    for (config, why) in [(nowhere, "no region is set"), (nobody, "there are no credentials")] {
        let refused = service.request(&config, "POST", "/a", &[], Vec::new()).await.unwrap_err();
        assert_eq!(refused.to_string(), why);
    }
}
