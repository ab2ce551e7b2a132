//! Sends somebody's own endpoint what its provider really sends, and says what it did with it.
//!
//! The schedule is pure ([`plan`]), and so is the verdict ([`verdict`]). Between them, [`course`] sends over [`wire`],
//! which connects only where [`guard`] allows it.

mod child;
mod course;
mod event;
mod guard;
mod page;
mod plan;
mod report;
mod scenario;
mod traces;
mod verdict;
mod wire;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use hookonce_providers::settings::PUBLIC_URL;
use hookonce_providers::{Provider, Settings};

use self::child::Receiver;
use self::course::{Event, Sent, Storm, usual};
use self::event::Signer;
use self::guard::{FAR_REQUESTS_MAX, Target};
use self::plan::Case;
use self::report::{Again, Judged, Report};
pub(crate) use self::scenario::Only;
use self::scenario::{PlannedScenario, Scenario, planned};
use self::traces::{Counts, Sink, Tokens, Traces};
use self::wire::Wire;
use crate::dev::fixtures::{self, Sample};
use crate::documents::endpoints::secret_of;
use crate::failure::{Exit, Failure};
use crate::output;

/// How many events are sent once each before anything else.
const CONTROL: usize = 10;

/// How often a race that was found is run again.
const RACES_AGAIN: usize = 20;

/// How much longer a long storm is.
const LONG: usize = 10;

/// How long an answer may take where the provider names no deadline.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a person asks for.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) url: String,
    pub(crate) provider: &'static Provider,
    /// One that a person gave; it is never shown.
    pub(crate) secret: Option<String>,
    pub(crate) sink: Option<u16>,
    pub(crate) run: Option<String>,
    pub(crate) command: Vec<String>,
    pub(crate) only: Option<Only>,
    pub(crate) seed: u64,
    pub(crate) is_long: bool,
    pub(crate) own: String,
    pub(crate) json: bool,
    pub(crate) html: Option<PathBuf>,
}

/// Storms, and says what was found.
///
/// # Errors
/// [`Failure`] when the order is not allowed, or when nothing can be judged.
pub(crate) async fn run(order: &Order) -> Result<Exit, Failure> {
    let target = Target::of(&order.url, &order.own).await?;
    if target.is_far && order.is_long {
        return Err(Failure::usage(
            format!("--long is for this machine only: another host gets {FAR_REQUESTS_MAX} requests at most"),
            "leave out --long",
        ));
    }
    let signer = signer(order)?;
    let samples: Vec<_> = fixtures::all().iter().filter(|sample| sample.provider == order.provider.id()).collect();
    let sample = samples.first().copied().ok_or_else(|| {
        Failure::usage(
            format!("there is no sample event of {}", order.provider.name()),
            "choose another provider; `hookonce trigger --list` shows those with samples",
        )
    })?;
    let planned = planned(order.provider, order.run.is_some());
    let cases = cases(order, &planned)?;
    let traces = match (order.sink, order.command.is_empty()) {
        (Some(port), _) => Traces::Sink(Sink::start(port).await?),
        (None, false) => Traces::Command(order.command.clone()),
        (None, true) => Traces::Uncounted,
    };
    announce(order, &target, &signer, &cases, &traces);
    let patience = order.provider.facts().deadline_seconds.map_or(PATIENCE, |it| Duration::from_secs(it.into()));
    let wire = Wire::new(target, patience)?;
    let mut child = match &order.run {
        Some(command) => Some(Receiver::start(command, &wire).await?),
        None => None,
    };
    if !wire.is_up().await {
        return Err(Failure::unavailable(
            format!("nothing listens at {}", wire.target.authority()),
            "start your service, or let the storm do it with --run",
        ));
    }
    let mut storm = Storm {
        wire,
        signer,
        sample,
        seed: order.seed,
        run: rand::random(),
        events: 0,
        tokens: Tokens::default(),
        usual: Duration::from_millis(10),
        retries: planned.iter().any(|planned| planned.scenario == Scenario::Race && planned.is_sent),
    };
    let working = output::working("control: each event once");
    choose_sample(&mut storm, &samples, &traces).await?;
    control(&mut storm, &traces).await?;
    let sent = storm.carry_out(&cases, &mut child, &working).await?;
    working.shows("counting the traces".to_owned());
    let counts = traces.settled(&storm.tokens, |_| false).await?;
    let judged = judged(&sent, &counts);
    if judged.is_empty() {
        return Err(Failure::unavailable(
            "cannot judge: none of the events of this storm was sent",
            "send more of it: leave out --only",
        ));
    }
    let again = run_again(&mut storm, &judged, &traces, &working).await?;
    drop(working);
    let report = Report::new(order, &storm, &planned, &judged, &again, &traces);
    show(order, &report)
}

fn show(order: &Order, report: &Report) -> Result<Exit, Failure> {
    if let Some(path) = &order.html {
        crate::stack::target::write(path, &page::page(report))?;
        output::note(&format!("wrote {}", path.display()));
    }
    if order.json {
        output::json(report);
    } else {
        report.print();
    }
    Ok(if report.is_good() { Exit::Done } else { Exit::No })
}

/// The secrets and settings to sign with.
fn signer(order: &Order) -> Result<Signer, Failure> {
    let provider = order.provider;
    if !provider.can_sign() {
        return Err(Failure::usage(
            format!("only {} can sign its events: it has a private key of its own", provider.name()),
            "choose a provider whose secret you share; `hookonce trigger --list` shows them",
        ));
    }
    let made_up = |salt: u8| {
        let mut bytes = [salt; 32];
        for (place, byte) in bytes.iter_mut().zip(order.seed.to_be_bytes()) {
            *place = byte;
        }
        secret_of(provider, bytes)
    };
    let none = || {
        Failure::usage(
            format!("no secret of {} can be made up", provider.name()),
            "pass `--secret -` and type a test secret",
        )
    };
    let wrong_secret = secret_of(provider, rand::random()).or_else(|| order.secret.as_ref().map(|it| swapped(it)));
    let secret = order.secret.clone().or_else(|| made_up(0x5a)).ok_or_else(none)?;
    let needed = provider.settings().iter().filter(|rule| rule.required && !rule.to_fetch);
    let made_up = |name: &str| if name == "header" { "x-webhook-token" } else { "storm" }.to_owned();
    let settings: BTreeMap<_, _> = needed
        .map(|rule| (rule.name.clone(), made_up(&rule.name)))
        .chain([(PUBLIC_URL.to_owned(), order.url.clone())])
        .collect();
    let url = order.url.clone();
    Ok(Signer {
        url,
        provider,
        secret,
        wrong_secret: wrong_secret.ok_or_else(none)?,
        settings: Settings::from(settings),
    })
}

/// A secret with its last letter changed, for a form that only a person can make.
fn swapped(secret: &str) -> String {
    let mut letters: Vec<_> = secret.chars().collect();
    if let Some(last) = letters.last_mut() {
        *last = if *last == 'a' { 'b' } else { 'a' };
    }
    letters.into_iter().collect()
}

/// The schedule: what the catalog says, or the part of it that a person wants.
fn cases(order: &Order, planned: &[PlannedScenario]) -> Result<Vec<Case>, Failure> {
    let sent: Vec<_> = planned.iter().filter(|planned| planned.is_sent).map(|planned| planned.scenario).collect();
    if let Some(planned) =
        planned.iter().find(|planned| order.only.is_some_and(|only| only.scenario == planned.scenario))
        && !planned.is_sent
    {
        return Err(Failure::usage(
            format!("{} is not sent for {}: {}", planned.scenario, order.provider.name(), planned.why),
            "choose another scenario with --only",
        ));
    }
    let cases = plan::plan(order.seed, &sent, if order.is_long { LONG } else { 1 }, order.only);
    if cases.is_empty() {
        return Err(Failure::usage("the scenario has no such event", "count from 1"));
    }
    Ok(cases)
}

/// Says what will be sent, before anything is.
fn announce(order: &Order, target: &Target, signer: &Signer, cases: &[Case], traces: &Traces) {
    let requests = (CONTROL + plan::requests(cases)).min(if target.is_far { FAR_REQUESTS_MAX } else { usize::MAX });
    let addresses: Vec<_> = target.addresses.iter().map(|address| address.ip().to_string()).collect();
    output::note(&format!(
        "sends about {requests} test requests, signed as {}, to {} at {}{}",
        order.provider.name(),
        order.url,
        addresses.join(" and "),
        if target.is_far { ", 10 a second" } else { "" },
    ));
    if order.secret.is_none() {
        output::note(&format!("made-up secret, which your endpoint must know: {}", signer.secret));
    }
    let names = order.provider.settings().iter().filter(|rule| rule.required && !rule.to_fetch);
    for name in names.map(|rule| rule.name.as_str()) {
        output::note(&format!("made-up {name}: {}", signer.settings.get(name).unwrap_or_default()));
    }
    if !traces.are_counted() {
        output::note("traces not counted: only forgeries, answers and times are judged. Add --sink PORT or -- COMMAND");
    }
}

/// Takes the first of the provider's samples that takes effect: an endpoint may ignore other types.
async fn choose_sample(storm: &mut Storm, samples: &[&'static Sample], traces: &Traces) -> Result<(), Failure> {
    if samples.len() < 2 {
        return Ok(());
    }
    let mut tried: Vec<(&'static Sample, Sent)> = Vec::new();
    for sample in samples {
        storm.sample = sample;
        let events = storm.events(&[probe(0)]);
        tried.extend(storm.first(events).await?.into_iter().map(|sent| (*sample, sent)));
    }
    let counts = traces.settled(&storm.tokens, Counts::is_empty).await?;
    let shows = |sent: &Sent| {
        if traces.are_counted() { traces_of(&counts, &sent.event) > 0 } else { is_taken(sent) }
    };
    let found = tried.iter().find(|(_, sent)| shows(sent)).map(|(sample, _)| *sample);
    storm.sample = found.or_else(|| samples.first().copied()).unwrap_or(storm.sample);
    Ok(())
}

/// Ten events, once each, are applied once each.
///
/// # Errors
/// [`Failure::Unavailable`] when they do not: then no other count says anything.
async fn control(storm: &mut Storm, traces: &Traces) -> Result<(), Failure> {
    let cases: Vec<_> = (1..=CONTROL).map(probe).collect();
    let events = storm.events(&cases);
    let mut sent = Vec::new();
    for event in events {
        sent.extend(storm.first(vec![event]).await?);
    }
    storm.usual = usual(&sent);
    let taken = sent.iter().filter(|sent| is_taken(sent)).count();
    let wrong = |found: String, hint: String| Err(Failure::unavailable(format!("cannot judge: {found}"), hint));
    if taken < CONTROL {
        let answers: Vec<_> = sent.iter().filter_map(|sent| sent.exchanges.last()).map(report::outcome).collect();
        return wrong(
            format!("of {CONTROL} genuine events, {taken} were answered with 2xx ({})", answers.join(", ")),
            "let your endpoint know the secret above, or pass yours with `--secret -`".to_owned(),
        );
    }
    if !traces.are_counted() {
        return Ok(());
    }
    let is_short = |counts: &Counts| sent.iter().any(|sent| traces_of(counts, &sent.event) == 0);
    let counts = traces.settled(&storm.tokens, is_short).await?;
    let found: Vec<_> = sent.iter().map(|sent| traces_of(&counts, &sent.event)).collect();
    if found.iter().all(|traces| *traces == 1) {
        return Ok(());
    }
    let total: usize = found.iter().sum();
    wrong(
        format!("{CONTROL} events of type {} were sent once each, and {total} traces show", storm.sample.event_type),
        "let the command, or the app's calls to the sink, show one trace of each event, with an id or the mail address \
         of the event in it"
            .to_owned(),
    )
}

/// An event that is sent once.
const fn probe(number: usize) -> Case {
    Case { scenario: Scenario::Copies, number, copies: 1, gap_ms: 0, percent: 0, variant: 0 }
}

fn is_taken(sent: &Sent) -> bool {
    sent.exchanges.last().is_some_and(|exchange| exchange.outcome.is_taken())
}

fn traces_of(counts: &Counts, event: &Event) -> usize {
    counts.get(&event.number).copied().unwrap_or(0)
}

fn judged(sent: &[Sent], counts: &Counts) -> Vec<Judged> {
    let is_over = |sent: &&Sent| sent.exchanges.last().is_some_and(|last| last.outcome != wire::Outcome::HungUp);
    let sent = sent.iter().filter(is_over).cloned();
    sent.map(|sent| Judged { traces: traces_of(counts, &sent.event), sent }).collect()
}

/// Runs the first race that was found again: it may not show each time.
async fn run_again(
    storm: &mut Storm,
    judged: &[Judged],
    traces: &Traces,
    working: &output::Working,
) -> Result<Vec<Again>, Failure> {
    let mut all = Vec::new();
    for scenario in [Scenario::Race, Scenario::GivenUp] {
        let is_found = |it: &&Judged| it.sent.event.case.scenario == scenario && it.traces > 1;
        let Some(found) = judged.iter().find(is_found) else { continue };
        let case = found.sent.event.case;
        working.shows(format!("{scenario}/{}: {RACES_AGAIN} times more", case.number));
        let events = storm.events(&[case; RACES_AGAIN]);
        all.push((case, storm.alone(events, 1).await?));
    }
    if all.is_empty() {
        return Ok(Vec::new());
    }
    let counts = traces.settled(&storm.tokens, |_| false).await?;
    let shown = |sent: &[Sent]| sent.iter().filter(|sent| traces_of(&counts, &sent.event) > 1).count();
    Ok(all.iter().map(|(case, sent)| Again { case: *case, shown: shown(sent), of: sent.len() }).collect())
}

#[cfg(test)]
impl Order {
    /// One with nothing but what a test is about.
    fn plain(provider: &'static Provider, secret: Option<&str>) -> Self {
        Self {
            url: "http://127.0.0.1:3000/in".to_owned(),
            provider,
            secret: secret.map(str::to_owned),
            sink: None,
            run: None,
            command: Vec::new(),
            only: None,
            seed: 1,
            is_long: false,
            own: String::new(),
            json: false,
            html: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use hookonce_providers::Catalog;

    use super::*;
    use crate::dev::fixtures::EventName;

    #[test]
    fn every_provider_with_a_shared_secret_can_be_stormed() {
        let name = EventName::numbered(1, 1);
        let (mut stormed, mut need_a_secret) = (0, Vec::new());
        for provider in Catalog::built_in().iter().filter(|provider| provider.can_sign()) {
            let made_up = signer(&Order::plain(provider, None));
            let signer = made_up.unwrap_or_else(|_| {
                need_a_secret.push(provider.id());
                signer(&Order::plain(provider, Some("user:4f9a0c7712e8b35d"))).unwrap()
            });
            assert_ne!(signer.secret, signer.wrong_secret, "{}", provider.id());
            let sample = fixtures::all().iter().find(|sample| sample.provider == provider.id()).unwrap();
            let genuine = signer.sign(event::request(sample, &name)).unwrap();
            let planned = planned(provider, true);
            for planned in planned.iter().filter(|planned| planned.is_sent && planned.scenario.is_forgery()) {
                let tokens = sample.tokens(&name);
                let forged = signer.forge(planned.scenario, event::request(sample, &name), &tokens, 1).unwrap();
                assert!(forged.is_some_and(|it| it != genuine), "{} {}", provider.id(), planned.scenario);
            }
            assert!(!cases(&Order::plain(provider, None), &planned).unwrap().is_empty());
            stormed += 1;
        }
        assert_eq!(need_a_secret, ["basic", "postmark"], "a user's name is part of their secrets");
        assert!(stormed > 60, "{stormed}");
    }
}
