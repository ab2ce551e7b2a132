//! The request to check: a capture in one file, or its parts. Each becomes the fields of a capture.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use hookonce_protocol::key::EndpointId;
use hookonce_providers::{CapturedRequest, CapturedRequestError, Catalog, UnknownCredential};
use hookonce_runtime::documents::document::EndpointDocument;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::transcript::Transcript;
use crate::command::send::header;
use crate::dev::capture::latest_refusal;
use crate::dev::sender::now_unix;
use crate::documents::secret::{Input, SecretOption, on_the_command_line};
use crate::documents::{self, parse_id};
use crate::failure::Failure;
use crate::output;
use crate::stack::target::{DataFolder, Place};

/// What the request consists of.
#[derive(Debug, Args)]
pub(super) struct RequestArguments {
    /// Captured request as JSON; `-`: standard input.
    ///
    /// `hookonce dev` keeps such. Fields: provider, method, url, headers, body_base64, now_unix and secrets, or
    /// endpoint; optional: settings, schemes, tolerance_seconds.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["header", "body", "curl", "method", "url", "at"])]
    request: Option<PathBuf>,
    /// The latest that the local stack refused.
    ///
    /// With --endpoint, the latest that this one refused.
    #[arg(long, conflicts_with_all = ["request", "header", "body", "curl", "method", "url", "at"])]
    last: bool,
    /// Endpoint that has the provider and the secrets.
    ///
    /// And the settings, in the local stack or in --stack.
    #[arg(long, value_name = "ID")]
    endpoint: Option<String>,
    /// Header; may be repeated; `NAME=-`: standard input.
    ///
    /// One that is a credential, such as GitLab's token, is given as `NAME=-` and read from standard input.
    #[arg(long, value_name = "NAME:VALUE")]
    header: Vec<String>,
    /// File with the body; `-`: standard input.
    ///
    /// Byte for byte.
    #[arg(long, value_name = "FILE")]
    body: Option<PathBuf>,
    /// Output of `curl -v`: method, path and headers.
    #[arg(long, value_name = "FILE")]
    curl: Option<PathBuf>,
    /// HTTP method [default: POST].
    #[arg(long)]
    method: Option<String>,
    /// URL that the provider called.
    ///
    /// By default the endpoint's public_url, else the local stack's --public, else the Host header.
    #[arg(long)]
    url: Option<String>,
    /// When the request came [default: now].
    ///
    /// Seconds since 1970, or a time such as 2026-01-01T12:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    at: Option<i64>,
    #[command(flatten)]
    place: Place,
}

/// Reads a point in time, in seconds since 1970.
fn moment(text: &str) -> Result<i64, String> {
    let seconds = text.parse().ok().or_else(|| Some(text.parse::<Timestamp>().ok()?.as_second()));
    seconds.ok_or_else(|| "neither seconds since 1970 nor a time such as 2026-01-01T12:00:00Z".to_owned())
}

impl RequestArguments {
    /// A request that an endpoint of a local stack refused.
    pub(super) fn of_file(file: PathBuf, stack: &DataFolder, endpoint: &EndpointId) -> Self {
        Self {
            request: Some(file),
            last: false,
            endpoint: Some(endpoint.to_string()),
            header: Vec::new(),
            body: None,
            curl: None,
            method: None,
            url: None,
            at: None,
            place: Place::named(stack.data.display().to_string()),
        }
    }

    /// The request, with what its endpoint holds, and the credentials that were withheld from the capture and are none
    /// of the endpoint's.
    ///
    /// # Errors
    /// [`Failure::Usage`] when parts are missing, all of which it names, or cannot be read.
    pub(super) async fn read(&self) -> Result<(CapturedRequest, Vec<UnknownCredential>), Failure> {
        let mut fields = match &self.request {
            Some(file) => capture(file)?,
            None if self.last => {
                if let Some(name) = self.place.deployed() {
                    return Err(Failure::usage(
                        format!("only a stack on this machine keeps requests, and {name} is the name of one on AWS"),
                        "--stack ./FOLDER names a stack on this machine; docs/run/runbook.md#deliveries-are-not-accepted-or-the-gateway-answers-5xx \
                         has the way to a request on AWS",
                    ));
                }
                let file = latest(&self.place.folder(), self.endpoint.as_deref())?;
                output::note(&format!("the latest refused request: {}", file.display()));
                capture(&file)?
            }
            None => self.parts()?,
        };
        let own = fields.remove("endpoint").and_then(|id| id.as_str().map(str::to_owned));
        fields.remove("answer");
        let withheld: Vec<String> = fields
            .remove("withheld")
            .map(serde_json::from_value)
            .transpose()
            .map_err(|_| Failure::usage("the field `withheld` must be a list of strings", "capture the request again"))?
            .unwrap_or_default();
        // A capture with secrets is complete.
        let id = self.endpoint.clone().or(own.filter(|_| !fields.contains_key("secrets")));
        let read = if let Some(id) = id {
            let known = parse_id(&id)?;
            let stack = self.place.connect();
            let stored = stack.documents::<EndpointId>().await?.get(&known).await?;
            let stored = stored.ok_or_else(|| self.missing(&known))?;
            let document = stored.document(&known)?;
            self.check_secrecy(&document.provider)?;
            add_endpoint(&mut fields, &id, document)?;
            CapturedRequest::of_endpoint(fields)
        } else {
            CapturedRequest::try_from(fields)
        };
        let mut captured = read.map_err(|error| {
            let hint = match &error {
                CapturedRequestError::Missing(missing) if missing.contains(&"secrets") => {
                    "`--endpoint ID` takes provider, secrets and settings from an endpoint, with --stack NAME from a deployed one"
                }
                _ => "`hookonce verify --help` lists the fields",
            };
            Failure::usage(format!("the captured request cannot be used: {error}"), hint)
        })?;
        let unknown = captured.restore(&withheld);
        Ok((captured, unknown))
    }

    /// The fields of a request that is given in parts.
    fn parts(&self) -> Result<Map<String, Value>, Failure> {
        let transcript = self.curl.as_deref().map(transcript).transpose()?;
        let called = transcript.as_ref().map_or("", |it| it.path.as_str());
        let path = called.split('?').next().unwrap_or_default();
        let id = self.endpoint.as_deref().or_else(|| path.trim_end_matches('/').strip_prefix("/webhooks/"));
        let method = self.method.clone().or_else(|| Some(transcript.as_ref()?.method.clone()));
        let method = method.unwrap_or_else(|| "POST".to_owned()).to_ascii_uppercase();
        let given = self.given_headers()?;
        let sent = transcript.as_ref().map(|it| it.headers.clone()).unwrap_or_default();
        let headers: Vec<_> = sent.into_iter().chain(given).collect();
        let needs_body = method != "GET";
        let missing = [
            ("the endpoint (--endpoint ID)", id.is_none()),
            ("the headers (--header NAME:VALUE for each, or --curl FILE)", needs_body && headers.is_empty()),
            ("the body (--body FILE)", needs_body && self.body.is_none()),
        ];
        let missing: Vec<_> = missing.into_iter().filter(|(_, is_missing)| *is_missing).map(|(what, _)| what).collect();
        let (Some(id), true) = (id, missing.is_empty()) else {
            return Err(Failure::usage(
                format!("the request is not complete; it lacks {}", missing.join(", ")),
                "or pass a whole captured request with --request FILE",
            ));
        };
        let body = self.body.as_deref().map(|file| read(file, "the body")).transpose()?.unwrap_or_default();
        let host = headers.iter().find(|(name, _)| name == "host").map_or("localhost", |(_, host)| host);
        let called = if called.is_empty() { format!("/webhooks/{id}") } else { called.to_owned() };
        let url = self.url.clone().unwrap_or_else(|| format!("{}{called}", self.origin(host)));
        let mut named: Map<String, Value> = Map::new();
        for (name, value) in headers {
            if let Some(values) = named.entry(name).or_insert_with(|| json!([])).as_array_mut() {
                values.push(value.into());
            }
        }
        let mut fields = Map::new();
        for (name, value) in [
            ("endpoint", json!(id)),
            ("method", json!(method)),
            ("url", json!(url)),
            ("headers", Value::Object(named)),
            ("body_base64", json!(STANDARD.encode(body))),
            ("now_unix", json!(self.at.unwrap_or_else(now_unix))),
        ] {
            fields.insert(name.to_owned(), value);
        }
        Ok(fields)
    }

    /// The headers of the command line, and those of standard input.
    fn given_headers(&self) -> Result<Vec<(String, String)>, Failure> {
        let hyphen = SecretOption::from("-");
        let mut input = Input::of(self.header.iter().filter_map(|text| hidden(text)).map(|_| &hyphen));
        for (file, option) in [(&self.body, "--body"), (&self.curl, "--curl")] {
            if file.as_deref() == Some(Path::new("-")) {
                input.taken_by_file(option)?;
            }
        }
        let read = |text: &String| match hidden(text) {
            Some(name) => header(&format!("{name}:{}", hyphen.secret(name, &mut input)?))
                .map_err(|_| Failure::usage(format!("what came for {name} is no header"), "give it as one line")),
            None => header(text),
        };
        self.header.iter().map(read).collect()
    }

    /// Refuses a credential that every process of the machine can read.
    fn check_secrecy(&self, provider: &str) -> Result<(), Failure> {
        let Some(provider) = Catalog::built_in().provider(provider) else { return Ok(()) };
        let open = self.header.iter().filter_map(|text| text.split_once(':')).map(|(name, _)| name.trim());
        match provider.credential_among(open, self.url.as_deref().unwrap_or_default()) {
            None => Ok(()),
            Some(place) => Err(on_the_command_line(
                &format!("credential at {place}"),
                "pass a header as `--header NAME=-`, or the whole request with `--request -`",
            )),
        }
    }

    /// The origin that the inbox takes a request to have: the public one of the running local stack, or else the name
    /// in the Host header, which a gateway reports without a port.
    fn origin(&self, host: &str) -> String {
        let running = self.place.deployed().is_none().then(|| self.place.folder().running().ok()).flatten();
        let name = host.rsplit_once(':').map_or(host, |(name, _port)| name);
        running.and_then(|running| running.public_url).unwrap_or_else(|| format!("https://{name}"))
    }
}

impl RequestArguments {
    /// The failure when there is no such endpoint. The request may be of another stack than the one of this folder.
    fn missing(&self, id: &EndpointId) -> Failure {
        let (place, advice) = match self.place.deployed() {
            Some(stack) => (format!(" in the stack {stack}"), "; --stack names the stack"),
            None => (
                format!(" in the folder {}", self.place.folder().data.display()),
                "; --stack names another local stack's folder, or a deployed stack",
            ),
        };
        documents::missing(id).with(&place, advice)
    }
}

/// The latest request that a local stack refused, of an endpoint or of any.
pub(super) fn latest(stack: &DataFolder, endpoint: Option<&str>) -> Result<PathBuf, Failure> {
    // A stack that ran before kept its requests in its folder, unless it was told otherwise.
    let folder = match stack.running() {
        Ok(running) => running.requests.ok_or_else(|| {
            Failure::usage(
                "the running stack keeps no requests, because another process runs its functions",
                "save the request with `curl -v`, and pass it with --curl and --body",
            )
        })?,
        Err(_) => stack.requests(),
    };
    latest_refusal(&folder, endpoint).ok_or_else(|| {
        let of = endpoint.map_or_else(String::new, |id| format!(" of {id}"));
        Failure::usage(
            format!("no refused request{of} is kept in {}", folder.display()),
            "`hookonce dev` keeps its latest requests there, those to an endpoint that exists; pass another file with \
             --request, or the folder of another stack with --stack",
        )
    })
}

/// The name of a header whose value comes from standard input.
fn hidden(text: &str) -> Option<&str> {
    text.strip_suffix("=-").filter(|name| !name.contains(':'))
}

/// Adds what an endpoint holds. This replaces what the capture says of its own endpoint.
fn add_endpoint(fields: &mut Map<String, Value>, id: &str, document: EndpointDocument) -> Result<(), Failure> {
    if fields.get("provider").is_some_and(|provider| *provider != json!(document.provider)) {
        return Err(Failure::usage(
            format!("the request is for another provider; endpoint {id} receives from {}", document.provider),
            "choose an endpoint of the request's provider with --endpoint",
        ));
    }
    let EndpointDocument { provider, secrets, settings, schemes, tolerance_seconds, .. } = document;
    for (name, value) in [
        ("provider", json!(provider)),
        ("secrets", json!(secrets)),
        ("settings", json!(settings)),
        ("schemes", json!(schemes)),
    ] {
        fields.insert(name.to_owned(), value);
    }
    fields.extend(tolerance_seconds.map(|seconds| ("tolerance_seconds".to_owned(), json!(seconds))));
    Ok(())
}

/// The fields of a capture.
fn capture(file: &Path) -> Result<Map<String, Value>, Failure> {
    let bytes = read(file, "the captured request")?;
    serde_json::from_slice(&bytes).map_err(|error| {
        Failure::usage(
            format!(
                "the captured request cannot be used: it is not a JSON object (line {}, column {})",
                error.line(),
                error.column()
            ),
            "`hookonce dev` keeps requests in the right form",
        )
    })
}

fn transcript(file: &Path) -> Result<Transcript, Failure> {
    let text = read(file, "the output of curl")?;
    Transcript::parse(&String::from_utf8_lossy(&text)).map_err(|error| {
        Failure::usage(
            format!("{} is not the output of `curl -v` for one request: {error}", file.display()),
            "save it with `curl -v ... 2> FILE`",
        )
    })
}

fn read(file: &Path, what: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = if file.as_os_str() == "-" {
        std::io::stdin().read_to_end(&mut bytes).map(|_| ())
    } else {
        std::fs::read(file).map(|file| bytes = file)
    };
    read.map_err(|error| {
        let what = format!("reading {what} from {} failed: {error}", file.display());
        Failure::usage(what, "pass a file, or - for standard input")
    })?;
    Ok(bytes)
}
