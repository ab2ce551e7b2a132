//! Carries the schedule out.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;

use super::child::Receiver;
use super::event::{self, Request, Signer};
use super::plan::{Case, GROUP, KILLED_TOGETHER};
use super::scenario::Scenario;
use super::traces::Tokens;
use super::wire::{Exchange, Outcome, Wire};
use crate::dev::fixtures::{EventName, Sample, SampleRequest};
use crate::failure::Failure;
use crate::output::Working;

/// How many events are under way at once, where no scenario says otherwise.
const TOGETHER: usize = 4;

/// How often an event is tried that is put off, with the first.
const ATTEMPTS_MAX: usize = 5;

/// The pause before it is tried again; it grows with each attempt.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// The pause between giving up and sending again.
const AT_ONCE: Duration = Duration::from_millis(2);

/// How much later an event comes again whose connection was cut.
const LATER: Duration = Duration::from_secs(1);

/// An event that is to be sent.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) case: Case,
    /// Its number in the storm.
    pub(crate) number: usize,
    pub(crate) name: EventName,
}

/// An event that was sent.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) event: Event,
    pub(crate) exchanges: Vec<Exchange>,
}

/// What the whole storm shares.
pub(crate) struct Storm {
    pub(crate) wire: Wire,
    pub(crate) signer: Signer,
    pub(crate) sample: &'static Sample,
    pub(crate) seed: u64,
    /// Names the run, so that no event of an earlier one is met again.
    pub(crate) run: u32,
    pub(crate) events: usize,
    pub(crate) tokens: Tokens,
    /// How long an answer usually takes.
    pub(crate) usual: Duration,
    /// Whether the provider sends again what is put off.
    pub(crate) retries: bool,
}

impl Storm {
    /// Gives each case an event of its own.
    pub(crate) fn events(&mut self, cases: &[Case]) -> Vec<Event> {
        let begin = |case: &Case| {
            self.events += 1;
            let name = EventName::numbered(self.run, self.events);
            self.tokens.add(self.events, &name, self.sample.tokens(&name));
            Event { case: *case, number: self.events, name }
        };
        cases.iter().map(begin).collect()
    }

    /// Carries out all cases, and starts with those that come again at the end.
    pub(crate) async fn carry_out(
        &mut self,
        cases: &[Case],
        child: &mut Option<Receiver>,
        bar: &Working,
    ) -> Result<Vec<Sent>, Failure> {
        let of =
            |scenario: Scenario| cases.iter().filter(|case| case.scenario == scenario).copied().collect::<Vec<_>>();
        bar.shows("later: the first time".to_owned());
        let early = self.events(&of(Scenario::Later));
        let (early, mut all) = (self.first(early).await?, Vec::new());
        for scenario in super::scenario::ALL {
            let cases = of(scenario);
            if cases.is_empty() || [Scenario::Later, Scenario::Restart].contains(&scenario) {
                continue;
            }
            bar.shows(format!("{scenario}: {} events", cases.len()));
            let events = self.events(&cases);
            all.extend(match scenario {
                Scenario::Cut => self.cut(events).await?,
                Scenario::Regrouped => self.regrouped(events).await?,
                Scenario::Race | Scenario::GivenUp => self.alone(events, 1).await?,
                Scenario::Copies
                | Scenario::Later
                | Scenario::Restart
                | Scenario::Rendering
                | Scenario::Secret
                | Scenario::Byte
                | Scenario::Unsigned
                | Scenario::Weaker
                | Scenario::Stale
                | Scenario::Raw => self.alone(events, TOGETHER).await?,
            });
        }
        bar.shows("later: again".to_owned());
        all.extend(self.again(early).await?);
        // At the end, because a receiver that forgets all of it would show everywhere behind it.
        bar.shows("restart".to_owned());
        let events = self.events(&of(Scenario::Restart));
        all.extend(self.killed(events, child).await?);
        Ok(all)
    }

    /// Sends each event once, as a provider does.
    pub(crate) async fn first(&self, events: Vec<Event>) -> Result<Vec<Sent>, Failure> {
        let sent = futures::stream::iter(events).map(|event| async move {
            let exchanges = self.deliver(&Arc::new(self.genuine(&event)?)).await;
            Ok::<_, Failure>(Sent { event, exchanges })
        });
        sent.buffered(TOGETHER).collect::<Vec<_>>().await.into_iter().collect()
    }

    /// Sends the same events again.
    async fn again(&self, sent: Vec<Sent>) -> Result<Vec<Sent>, Failure> {
        let sent = futures::stream::iter(sent).map(|mut sent| async move {
            sent.exchanges.extend(self.deliver(&Arc::new(self.genuine(&sent.event)?)).await);
            Ok::<_, Failure>(sent)
        });
        sent.buffered(TOGETHER).collect::<Vec<_>>().await.into_iter().collect()
    }

    /// Sends each event by itself.
    pub(crate) async fn alone(&self, events: Vec<Event>, together: usize) -> Result<Vec<Sent>, Failure> {
        let sent = futures::stream::iter(events).map(|event| async move {
            let exchanges = self.play(&event).await?;
            Ok::<_, Failure>(Sent { event, exchanges })
        });
        sent.buffered(together).collect::<Vec<_>>().await.into_iter().collect()
    }

    async fn play(&self, event: &Event) -> Result<Vec<Exchange>, Failure> {
        let Event { case, name, .. } = event;
        let first = self.unsigned(name);
        match case.scenario {
            Scenario::Race => {
                let request = Arc::new(self.genuine(event)?);
                let requests: Vec<_> = (0..case.copies).map(|_| Arc::clone(&request)).collect();
                let mut sent = self.wire.race(&requests, Duration::from_millis(case.gap_ms)).await.unwrap_or_default();
                if sent.iter().any(|it| it.outcome.asks_again()) {
                    sent.extend(self.deliver(&request).await);
                }
                Ok(sent)
            }
            Scenario::GivenUp => {
                let mut sent = self.leave(event).await?;
                tokio::time::sleep(AT_ONCE).await;
                sent.extend(self.deliver(&Arc::new(self.genuine(event)?)).await);
                Ok(sent)
            }
            Scenario::Rendering => {
                let again = event::rendered_again(self.sample, self.signer.provider, &first);
                let mut sent = self.deliver(&Arc::new(self.signer.sign(first)?)).await;
                sent.extend(self.deliver(&Arc::new(self.signer.sign(again)?)).await);
                Ok(sent)
            }
            Scenario::Raw => match event::raw(&first, case.variant) {
                Some(raw) => Ok(self.deliver(&Arc::new(self.signer.sign(raw)?)).await),
                None => Ok(Vec::new()),
            },
            Scenario::Secret | Scenario::Byte | Scenario::Unsigned | Scenario::Weaker | Scenario::Stale => {
                let tokens = self.sample.tokens(name);
                let seed = self.seed.wrapping_add(u64::try_from(case.number).unwrap_or(0));
                let Some(forged) = self.signer.forge(case.scenario, first, &tokens, seed)? else {
                    return Ok(Vec::new());
                };
                Ok(self.wire.send(&Arc::new(forged), None).await.into_iter().collect())
            }
            Scenario::Copies | Scenario::Cut | Scenario::Later | Scenario::Restart | Scenario::Regrouped => {
                let request = Arc::new(self.signer.sign(first)?);
                let mut sent = self.deliver(&request).await;
                sent.extend(self.deliver(&request).await);
                Ok(sent)
            }
        }
    }

    /// Cuts every connection before the answer, and sends all of it again later.
    async fn cut(&self, events: Vec<Event>) -> Result<Vec<Sent>, Failure> {
        let sent = futures::stream::iter(events).map(|event| async move {
            let exchanges = self.leave(&event).await?;
            Ok::<_, Failure>(Sent { event, exchanges })
        });
        let sent: Vec<_> = sent.buffered(TOGETHER).collect().await;
        tokio::time::sleep(LATER).await;
        self.again(sent.into_iter().collect::<Result<_, _>>()?).await
    }

    /// Kills the receiver while events of every age are at work, and sends all of them again after its restart.
    async fn killed(&self, events: Vec<Event>, child: &mut Option<Receiver>) -> Result<Vec<Sent>, Failure> {
        let mut all = Vec::new();
        let Some(child) = child else { return Ok(all) };
        for round in events.chunks(KILLED_TOGETHER) {
            let step = self.usual / u32::try_from(round.len()).unwrap_or(1);
            let requests =
                round.iter().map(|event| self.genuine(event).map(Arc::new)).collect::<Result<Vec<_>, _>>()?;
            let Some(exchanges) = ({
                let race = self.wire.race(&requests, step);
                let kill = async {
                    tokio::time::sleep(self.usual).await;
                    child.kill().await;
                };
                futures::future::join(race, kill).await.0
            }) else {
                break;
            };
            child.restart(&self.wire).await?;
            let sent = round.iter().cloned().zip(exchanges);
            let sent = sent.map(|(event, exchange)| Sent { event, exchanges: vec![exchange] }).collect();
            all.extend(self.again(sent).await?);
        }
        Ok(all)
    }

    /// Sends groups of events in one delivery each, and the same events again in other groups.
    async fn regrouped(&self, events: Vec<Event>) -> Result<Vec<Sent>, Failure> {
        let mut all: Vec<Sent> = Vec::new();
        for group in events.chunks(GROUP) {
            let names: Vec<_> = group.iter().map(|event| event.name.clone()).collect();
            let (first, rest) = names.split_at(1.min(names.len()));
            let reversed: Vec<_> = rest.iter().rev().cloned().collect();
            let mut sent: Vec<_> =
                group.iter().map(|event| Sent { event: event.clone(), exchanges: Vec::new() }).collect();
            for part in [names.as_slice(), reversed.as_slice(), first].into_iter().filter(|part| !part.is_empty()) {
                let request = Arc::new(self.signer.sign(event::batch(self.sample, part))?);
                let exchanges = self.deliver(&request).await;
                for sent in sent.iter_mut().filter(|sent| part.contains(&sent.event.name)) {
                    sent.exchanges.extend(exchanges.iter().cloned());
                }
            }
            all.extend(sent);
        }
        Ok(all)
    }

    /// Sends an event and goes away before the answer.
    async fn leave(&self, event: &Event) -> Result<Vec<Exchange>, Failure> {
        let leaves_after = self.usual * u32::try_from(event.case.percent).unwrap_or(50) / 100;
        let request = Arc::new(self.genuine(event)?);
        Ok(self.wire.send(&request, Some(leaves_after)).await.into_iter().collect())
    }

    /// Sends a request until it is taken or refused, as its provider would.
    async fn deliver(&self, request: &Arc<Request>) -> Vec<Exchange> {
        let mut sent = Vec::new();
        for attempt in (1_u32..).take(if self.retries { ATTEMPTS_MAX } else { 1 }) {
            let Some(exchange) = self.wire.send(request, None).await else { break };
            let outcome = exchange.outcome;
            sent.push(exchange);
            if !outcome.asks_again() {
                break;
            }
            tokio::time::sleep(RETRY_PAUSE * attempt).await;
        }
        sent
    }

    fn unsigned(&self, name: &EventName) -> SampleRequest {
        event::request(self.sample, name)
    }

    fn genuine(&self, event: &Event) -> Result<Request, Failure> {
        self.signer.sign(self.unsigned(&event.name))
    }
}

/// The middle of the times of all answers.
pub(crate) fn usual(sent: &[Sent]) -> Duration {
    let exchanges = sent.iter().flat_map(|sent| &sent.exchanges);
    let mut times: Vec<_> =
        exchanges.filter(|it| matches!(it.outcome, Outcome::Answered(_))).map(|it| it.took).collect();
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or(Duration::from_millis(10)).max(Duration::from_millis(1))
}
