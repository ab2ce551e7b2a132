//! Operations that are signed here. The SDKs of their services change features of the crates that all SDKs share, so
//! each of those would be built once more. docs/adr/0009-the-weight-of-the-sdk.md says what that costs.

use std::time::{Duration, UNIX_EPOCH};

use aws_config::SdkConfig;
use aws_credential_types::provider::ProvideCredentials as _;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4::SigningParams;
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_types::body::SdkBody;
use aws_types::service_config::ServiceConfigKey;

use hookonce_runtime::ambient::{Ambient as _, System};
use hookonce_runtime::handlers::remote::Cause;

/// A service of AWS that is called without its SDK.
#[derive(Debug, Clone, Copy)]
pub struct SignedService {
    /// Its name in signatures and addresses.
    pub name: &'static str,
    /// Its name in profiles and environment variables, which may set its address.
    pub id: &'static str,
}

impl SignedService {
    /// A signed request with this method to this path of the service, with these headers.
    ///
    /// # Errors
    /// Why it cannot be signed: the configuration has no region, there are no credentials, or it asks for a kind of
    /// address that is not known here.
    pub async fn request(
        self,
        config: &SdkConfig,
        method: &str,
        path: &str,
        headers: &[(&'static str, &str)],
        body: Vec<u8>,
    ) -> Result<HttpRequest, Cause> {
        let region = config.region().ok_or("no region is set")?.to_string();
        let base = self.address(config, &region)?;
        let url = format!("{base}{path}");
        let host = base.split("://").nth(1).and_then(|rest| rest.split('/').next()).unwrap_or_default();
        let headers = || headers.iter().copied().chain([("host", host)]);
        let provider = config.credentials_provider().ok_or("there are no credentials")?;
        let identity = provider.provide_credentials().await?.into();
        let now = UNIX_EPOCH + Duration::from_millis(u64::try_from(System.moment().now.0).unwrap_or(0));
        let parameters = SigningParams::builder().identity(&identity).region(&region).name(self.name).time(now);
        let parameters = parameters.settings(SigningSettings::default()).build()?.into();
        let signable = SignableRequest::new(method, &url, headers(), SignableBody::Bytes(&body))?;
        let (instructions, _) = sign(signable, &parameters)?.into_parts();
        let mut request = HttpRequest::new(SdkBody::from(body));
        request.set_method(method)?;
        request.set_uri(url.as_str())?;
        for (name, value) in headers() {
            request.headers_mut().insert(name, value.to_owned());
        }
        for header in instructions.into_parts().0 {
            request.headers_mut().insert(header.name(), header.value().to_owned());
        }
        Ok(request)
    }

    /// The service's address: the one that the environment or the profile names, or that of the region.
    fn address(self, config: &SdkConfig, region: &str) -> Result<String, Cause> {
        let key = ServiceConfigKey::builder().service_id(self.id).env("AWS_ENDPOINT_URL").profile("endpoint_url");
        let named = key.build().ok().and_then(|key| config.service_config()?.load_config(key));
        let named = named.or_else(|| config.endpoint_url().map(str::to_owned));
        if let Some(url) = named {
            return Ok(url.trim_end_matches('/').to_owned());
        }
        let is_known = !region.contains("iso") && !region.starts_with("eusc-");
        if !is_known || config.use_fips() == Some(true) || config.use_dual_stack() == Some(true) {
            return Err(format!(
                "this build knows only the plain addresses of the commercial, GovCloud and China regions, no FIPS or \
                 dual-stack ones; name one in AWS_ENDPOINT_URL_{}",
                self.id.to_uppercase()
            )
            .into());
        }
        let suffix = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
        Ok(format!("https://{}.{region}.{suffix}", self.name))
    }
}
