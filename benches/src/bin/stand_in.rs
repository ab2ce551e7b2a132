//! The Runtime API of Lambda, DynamoDB and SQS for a program that is measured, on loopback, as scripts/checks/rig.py plays them.
//!
//! It answers sooner than Python can. A program that waits for its answer sleeps and wakes, which takes processor time of
//! its own.
//!
//! Its arguments are a file with an event in each line, one with what the tables hold, which no write changes, the
//! microseconds that store and queue take for an answer, and the numbers of the events before which it waits for a line
//! of standard input. Documents are found by the kind in their key, and items by their `pk`. It prints its address,
//! `asked` at each of these events, and after the last one how often it was called. It ends with its standard input.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead as _, BufReader, Error, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use md5::{Digest as _, Md5};
use serde_json::{Value, json};

/// What the program is given, and what it did.
struct Played {
    events: Vec<String>,
    stored: HashMap<String, Value>,
    delay: Duration,
    stops: Vec<usize>,
    /// A message for each line of standard input.
    told: Mutex<Receiver<()>>,
    done: Mutex<Done>,
}

#[derive(Default)]
struct Done {
    answers: usize,
    fine: usize,
    calls: BTreeMap<String, usize>,
}

/// A request, as far as it is looked at.
struct Request {
    path: String,
    target: String,
    body: Vec<u8>,
}

fn main() -> Result<(), Error> {
    let missing = || Error::other("EVENTS STORED MICROSECONDS STOP...");
    let mut arguments = std::env::args().skip(1);
    let events = std::fs::read_to_string(arguments.next().ok_or_else(missing)?)?;
    let stored = std::fs::read_to_string(arguments.next().ok_or_else(missing)?)?;
    let delay = arguments.next().ok_or_else(missing)?.parse().map_err(Error::other)?;
    let (tell, told) = channel();
    let played = Arc::new(Played {
        events: events.lines().map(str::to_owned).collect(),
        stored: serde_json::from_str(&stored)?,
        delay: Duration::from_micros(delay),
        stops: arguments.map(|stop| stop.parse().map_err(Error::other)).collect::<Result<_, _>>()?,
        told: Mutex::new(told),
        done: Mutex::default(),
    });
    let listener = TcpListener::bind("127.0.0.1:0")?;
    say(&listener.local_addr()?.to_string())?;
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let played = Arc::clone(&played);
            // A program that ends closes its connections.
            std::thread::spawn(move || serve(&stream, &played).unwrap_or_default());
        }
    });
    for line in std::io::stdin().lines() {
        line?;
        tell.send(()).map_err(Error::other)?;
    }
    Ok(())
}

fn lock<T>(held: &Mutex<T>) -> MutexGuard<'_, T> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

fn say(line: &str) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

fn serve(stream: &TcpStream, played: &Played) -> Result<(), Error> {
    stream.set_nodelay(true)?;
    let (mut reader, mut writer) = (BufReader::with_capacity(65_536, stream), stream);
    while let Some(request) = read(&mut reader)? {
        let (status, headers, body) = played.answer(&request)?;
        let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n", body.len());
        writer.write_all(format!("{head}{headers}\r\n{body}").as_bytes())?;
    }
    Ok(())
}

/// The next request, unless the connection ends.
fn read(reader: &mut BufReader<&TcpStream>) -> Result<Option<Request>, Error> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let Some(path) = line.split(' ').nth(1) else { return Ok(None) };
    let mut request = Request { path: path.to_owned(), target: String::new(), body: Vec::new() };
    let (mut length, mut chunked, mut waits) = (0, false, false);
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().map_err(Error::other)?,
            "transfer-encoding" => chunked = value == "chunked",
            "expect" => waits = true,
            "x-amz-target" => value.rsplit('.').next().unwrap_or_default().clone_into(&mut request.target),
            _ => {}
        }
    }
    if waits {
        reader.get_mut().write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    if !chunked {
        request.body.resize(length, 0);
        reader.read_exact(&mut request.body)?;
        return Ok(Some(request));
    }
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let size = usize::from_str_radix(line.trim_end(), 16).map_err(Error::other)?;
        let mut chunk = vec![0; size + 2];
        reader.read_exact(&mut chunk)?;
        chunk.truncate(size);
        request.body.append(&mut chunk);
        if size == 0 {
            return Ok(Some(request));
        }
    }
}

/// Whether a function did all that its event asks for.
fn is_fine(answer: &Value) -> bool {
    let is = |name: &str, value: Value| answer.get(name) == Some(&value);
    is("statusCode", json!(200)) || is("batchItemFailures", json!([])) || is("failed", json!(0))
}

/// The elements of a list.
fn each<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}

/// The entry of an item in the index.
fn entry(item: &Value) -> Value {
    json!({ "pk": item.get("pk"), "due_shard": item.get("due_shard"), "due_at": item.get("due_at") })
}

/// The answer to a message that was sent.
fn sent(message: &Value) -> Value {
    let hash = hex::encode(Md5::digest(message.get("MessageBody").and_then(Value::as_str).unwrap_or_default()));
    json!({ "Id": message.get("Id"), "MD5OfMessageBody": hash, "MessageId": "00000000-0000-4000-8000-000000000000" })
}

impl Played {
    fn answer(&self, request: &Request) -> Result<(&'static str, String, String), Error> {
        if request.path.ends_with("/invocation/next") {
            return self.hand_out();
        }
        let body: Value = serde_json::from_slice(&request.body)?;
        let mut done = lock(&self.done);
        if request.target.is_empty() {
            done.answers += 1;
            done.fine += usize::from(is_fine(&body));
            return Ok(("202 Accepted", String::new(), r#"{"status":"OK"}"#.to_owned()));
        }
        *done.calls.entry(request.target.clone()).or_default() += 1;
        drop(done);
        if !self.delay.is_zero() {
            std::thread::sleep(self.delay);
        }
        let answer = match request.target.as_str() {
            "GetItem" => json!({ "Item": body.get("Key").and_then(|key| self.item(key)) }),
            "BatchGetItem" => {
                let found = |keys| each(keys, "Keys").filter_map(|key| self.item(key)).collect::<Value>();
                let tables = body.get("RequestItems").and_then(Value::as_object).into_iter().flatten();
                json!({ "Responses": tables.map(|(table, keys)| (table.clone(), found(keys))).collect::<Value>() })
            }
            "Query" => {
                let shard = body.pointer("/ExpressionAttributeValues/:shard");
                let of_shard = self.stored.values().filter(|item| shard.is_some() && item.get("due_shard") == shard);
                let items: Vec<_> = of_shard.map(entry).collect();
                json!({ "Count": items.len(), "ScannedCount": items.len(), "Items": items })
            }
            "SendMessage" => sent(&body),
            "SendMessageBatch" => {
                json!({ "Successful": each(&body, "Entries").map(sent).collect::<Value>(), "Failed": [] })
            }
            "GetQueueAttributes" => json!({"Attributes": {"ApproximateNumberOfMessages": "0"}}),
            _ => json!({}),
        };
        Ok(("200 OK", format!("x-amzn-requestid: {}\r\n", "0".repeat(36)), answer.to_string()))
    }

    /// What is stored under a key.
    fn item(&self, key: &Value) -> Option<Value> {
        let stored = |name: &str| self.stored.get(key.get(name)?.get("S")?.as_str()?);
        stored("kind").map(|document| json!({ "document": document })).or_else(|| stored("pk").cloned())
    }

    #[expect(clippy::disallowed_methods, reason = "nothing of the product is in what measures it")]
    fn hand_out(&self) -> Result<(&'static str, String, String), Error> {
        let number = lock(&self.done).answers;
        if self.stops.contains(&number) {
            say("asked")?;
            lock(&self.told).recv().map_err(Error::other)?;
        }
        let Some(event) = self.events.get(number) else {
            let done = lock(&self.done);
            say(&json!({"calls": done.calls, "fine": done.fine}).to_string())?;
            drop(done);
            loop {
                std::thread::park();
            }
        };
        let deadline = SystemTime::now().duration_since(UNIX_EPOCH).map_err(Error::other)?.as_millis() + 60_000;
        let headers = format!(
            "Lambda-Runtime-Aws-Request-Id: r{number}\r\nLambda-Runtime-Trace-Id: Root=1-0-0\r\nLambda-Runtime-Deadline-Ms: {deadline}\r\n\
             Lambda-Runtime-Invoked-Function-Arn: arn:aws:lambda:us-east-1:000000000000:function:f\r\n",
        );
        Ok(("200 OK", headers, event.clone()))
    }
}
