//! Calls of CloudFormation and SNS, which speak the query protocol: a form, answered with XML.

use std::time::Duration;

use aws_config::SdkConfig;
use form_urlencoded::Serializer;
use hookonce_aws::SignedService;
use hookonce_protocol::time::Millis;
use hookonce_runtime::ambient::{Ambient as _, System};
use hookonce_runtime::handlers::remote::Cause;
use hookonce_runtime::inbox::drive::duration;
use roxmltree::{Document, Node};

use crate::stack::account::exchange;

/// A service that is called without its SDK.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueryService {
    signed: SignedService,
    /// The version of its interface in requests.
    interface: &'static str,
}

/// Stacks.
pub(crate) const CLOUDFORMATION: QueryService =
    QueryService { signed: SignedService { name: "cloudformation", id: "CloudFormation" }, interface: "2010-05-15" };

/// Topics, and who subscribes to them.
pub(crate) const SNS: QueryService =
    QueryService { signed: SignedService { name: "sns", id: "SNS" }, interface: "2010-03-31" };

/// The bounds of the pause after an answer that throttles: it doubles from the first to the last. An account has a few
/// calls of this kind a second.
const FIRST_PAUSE: Millis = Millis::seconds(1);
const LAST_PAUSE: Millis = Millis::seconds(8);

/// Why the service refused a call.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) code: String,
    pub(crate) message: String,
}

impl QueryService {
    /// Calls an action, again after a pause while it is throttled. Returns the text of the answer.
    ///
    /// # Errors
    /// Why there is no answer.
    pub(crate) async fn call(
        self,
        config: &SdkConfig,
        action: &str,
        fields: &[(&str, &str)],
    ) -> Result<Result<String, Refusal>, Cause> {
        let body = self.form(action, fields);
        let headers = [("content-type", "application/x-www-form-urlencoded")];
        let mut longest = FIRST_PAUSE;
        loop {
            let request = self.signed.request(config, "POST", "/", &headers, body.clone().into_bytes()).await?;
            let response = exchange(request).await?;
            let answer = std::str::from_utf8(response.body().bytes().unwrap_or_default())?.to_owned();
            if response.status().is_success() {
                return Ok(Ok(answer));
            }
            let document = Document::parse(&answer)?;
            let [code, message] =
                ["Code", "Message"].map(|name| text_below(document.root(), name).unwrap_or_default().to_owned());
            if code != "Throttling" || longest > LAST_PAUSE {
                return Ok(Err(Refusal { code, message }));
            }
            tokio::time::sleep(duration(System.moment().uniform(longest)).max(Duration::from_millis(100))).await;
            longest = Millis(longest.0 * 2);
        }
    }

    fn form(self, action: &str, fields: &[(&str, &str)]) -> String {
        let mut form = Serializer::new(String::new());
        form.append_pair("Action", action).append_pair("Version", self.interface).extend_pairs(fields).finish()
    }
}

/// The text of the first element of this name.
pub(crate) fn text_below<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    node.descendants().find(|it| it.tag_name().name() == name)?.text()
}

/// The text of the first element of this name that stands in no list. Empty if there is none.
pub(crate) fn outside_lists<'a>(answer: &'a Document<'_>, name: &str) -> &'a str {
    let in_list = |node: &Node<'_, '_>| node.ancestors().any(|it| it.tag_name().name() == "member");
    let found = answer.descendants().find(|node| node.tag_name().name() == name && !in_list(node));
    found.and_then(|node| node.text()).unwrap_or_default()
}

/// The text of a child of this name. Empty if there is none.
pub(crate) fn child<'a>(node: Node<'a, '_>, name: &str) -> &'a str {
    node.children().find(|it| it.tag_name().name() == name).and_then(|it| it.text()).unwrap_or_default()
}

/// The members of all lists that have this field.
pub(crate) fn members<'a, 'input>(
    answer: &'a Document<'input>,
    field: &'a str,
) -> impl Iterator<Item = Node<'a, 'input>> {
    let has = move |entry: &Node<'_, '_>| entry.children().any(|it| it.tag_name().name() == field);
    answer.descendants().filter(|node| node.tag_name().name() == "member").filter(has)
}
