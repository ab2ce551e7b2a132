//! `hookonce cost`: the bill of a month.

use clap::Args;
use hookonce_runtime::ambient::{Ambient as _, System};
use hookonce_runtime::inbox::ingest::CLAIM_BYTES_MAX;
use serde_json::{Value, json};

use crate::bill::{Bill, Counted, Design, Item, Line, Load, Price, Prices, WriteUnits};
use crate::failure::{Exit, Failure};
use crate::output::{self, Table};
use crate::stack::connection::Deployed;
use crate::stack::watch::sums_of_month;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Events in a month, such as 250k; several make a column each.
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = count, default_value = "0,10k,1M,100M")]
    events: Vec<f64>,
    /// Length of a body.
    #[arg(long, value_name = "N", value_parser = count, default_value = "2048")]
    body_bytes: f64,
    /// Deliveries that repeat an event, as a share of the events.
    #[arg(long, value_name = "SHARE", value_parser = amount, default_value = "0.01")]
    duplicates: f64,
    /// Effects of an event.
    #[arg(long, value_name = "PER_EVENT", value_parser = amount, default_value = "0")]
    effects: f64,
    /// Deployed stack: take what its last 30 days had of these.
    ///
    /// Events, duplicates, effects, and requests that were refused.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["events", "duplicates", "effects"])]
    stack: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A number such as 1500, 10k or 2.5M.
fn count(text: &str) -> Result<f64, String> {
    let (digits, times) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1e3),
        None => text.strip_suffix(['m', 'M']).map_or((text, 1.0), |digits| (digits, 1e6)),
    };
    // A part of 1,000,000, which commas divide.
    let is_part = digits.len() > 1 && digits.starts_with('0') && !digits.contains('.');
    let number = digits.parse::<f64>().ok().map(|number| (number * times).round());
    number
        .filter(|number| !is_part && (0.0..=1e12).contains(number))
        .ok_or_else(|| "a number, such as 1500, 10k or 2.5M".to_owned())
}

/// A number for each event.
fn amount(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok();
    number
        .filter(|number| (0.0..=100.0).contains(number))
        .ok_or_else(|| "a number from 0 to 100, such as 0.05".to_owned())
}

pub(crate) async fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let counted = Counted::built_in();
    note_commas(&arguments.events);
    let record_bytes = counted.record_bytes(arguments.body_bytes);
    if record_bytes > f64::from(u32::try_from(CLAIM_BYTES_MAX).unwrap_or(u32::MAX)) {
        return Err(Failure::usage(
            format!("the record of such a body would have {} bytes, more than fit", grouped(record_bytes, 0)),
            format!("--body-bytes for a record of at most {CLAIM_BYTES_MAX} bytes"),
        ));
    }
    let (loads, days) = loads(&arguments).await?;
    let report = Report { loads, days, record_bytes, counted, prices: Prices::built_in() };
    if arguments.json {
        output::json(&report.json());
    } else {
        report.print();
    }
    Ok(Exit::Done)
}

/// Notes what may be a number with commas between its thousands rather than several loads.
fn note_commas(events: &[f64]) {
    let may_be_one = matches!(events, [first, rest @ ..] if !rest.is_empty() && (1.0..1e3).contains(first)
        && rest.iter().all(|part| (100.0..1e3).contains(part)));
    if may_be_one {
        let parts: Vec<_> = events.iter().map(ToString::to_string).collect();
        let (months, one) = (parts.len(), parts.concat());
        output::note(&format!("commas divide loads, so this is {months} months. For one number: --events {one}"));
    }
}

/// What the months bring that are asked for, and for how many days of them a stack has run.
async fn loads(arguments: &Arguments) -> Result<(Vec<Load>, Option<f64>), Failure> {
    let Arguments { body_bytes, duplicates, effects, .. } = *arguments;
    let load = |events| Load { events, duplicates, effects, refused: 0.0, body_bytes };
    let Some(stack) = &arguments.stack else { return Ok((arguments.events.iter().copied().map(load).collect(), None)) };
    let deployed = Deployed::named(stack);
    let metrics = [
        ("relay", "relay_ran"),
        ("webhook", "delivery_accepted"),
        ("webhook", "delivery_duplicate"),
        ("dispatcher", "effect_delivered"),
        ("webhook", "delivery_refused"),
    ];
    let now = System.moment().now;
    let [runs, events, repeats, effects, refused] =
        sums_of_month(deployed.account().await?, stack, metrics, now).await?;
    if runs < 1.0 {
        return Err(Failure::usage(
            format!("CloudWatch has no metric of a stack {stack} in the last 30 days"),
            "check the stack's name and the AWS region (AWS_DEFAULT_REGION, AWS_PROFILE)",
        ));
    }
    let per_event = |count: f64| if events > 0.0 { count / events } else { 0.0 };
    let load = Load { events, duplicates: per_event(repeats), effects: per_event(effects), refused, body_bytes };
    // The relay runs each minute.
    Ok((vec![load], Some(runs / (24.0 * 60.0))))
}

/// Everything that is printed.
struct Report {
    loads: Vec<Load>,
    /// For how many days the stack has run, if there is one.
    days: Option<f64>,
    record_bytes: f64,
    counted: &'static Counted,
    prices: &'static Prices,
}

impl Report {
    fn print(&self) {
        let bills: Vec<_> = self.loads.iter().map(|load| Bill::of(load, self.counted, self.prices)).collect();
        match (&self.loads[..], &bills[..]) {
            ([load], [bill]) => self.print_one(load, bill),
            _ => self.print_columns(&bills),
        }
        output::line("");
        let (first, last) = self.prices.read();
        output::line(&format!("Prices of {}, read {first} to {last}. --json has their sources.", self.prices.region));
        let Some(load) = self.loads.last().filter(|load| load.events > 0.0) else { return };
        if Design::all(load, self.counted).iter().any(|design| !design.fits) {
            output::line("A dash: such a body does not fit where the design keeps it.");
        }
        output::line(&format!(
            "Bodies of {} bytes make records of {}, compressed as the samples are.",
            grouped(load.body_bytes, 0),
            grouped(self.record_bytes, 0),
        ));
        let units = WriteUnits::of_event(self.record_bytes, self.counted.plan_writes).total();
        output::line(&format!(
            "An event takes {} write units; duplicates of it {}, effects {}.",
            grouped(units, 0),
            plain(load.duplicates),
            plain(load.effects),
        ));
        if load.refused > 0.0 {
            output::line(&format!("Refused requests of strangers: {}.", grouped(load.refused, 0)));
        }
        let Some(days) = self.days else { return };
        output::line("No metric has the length of the bodies: --body-bytes takes yours.");
        if days < 29.0 {
            output::line(&format!(
                "The stack ran for {:.0} of 30 days, so a whole month has more events.",
                days.ceil()
            ));
        }
    }

    /// A column for each load.
    fn print_columns(&self, bills: &[Bill]) {
        let header: Vec<_> = self.loads.iter().map(|load| events(load.events)).collect();
        let header: Vec<_> = [""].into_iter().chain(header.iter().map(String::as_str)).collect();
        let row = |table: &mut Table, name: &str, cells: &mut dyn Iterator<Item = Option<f64>>| {
            table.add_row([name.to_owned()].into_iter().chain(cells.map(dollars)));
        };
        let mut table = output::table(&header);
        for item in Item::OWN {
            let line = |bill: &Bill| bill.lines.iter().filter(|line| line.item == item).map(|line| line.list).sum();
            row(&mut table, item.name(), &mut bills.iter().map(line).map(Some));
        }
        row(&mut table, "dollars a month", &mut bills.iter().map(Bill::list).map(Some));
        row(&mut table, "after the free tiers", &mut bills.iter().map(Bill::after_free).map(Some));
        table.add_row([""]);
        table.add_row(["instead, list price"]);
        let designs: Vec<_> = self.loads.iter().map(|load| Design::all(load, self.counted)).collect();
        for (at, design) in designs.iter().flatten().take(Design::COUNT).enumerate() {
            let mut costs = designs.iter().filter_map(|designs| designs.get(at)).map(|design| design.list(self.prices));
            row(&mut table, design.name, &mut costs);
        }
        table.align_right_from(1);
        output::print(&table);
    }

    /// The only load, with its units and prices.
    fn print_one(&self, load: &Load, bill: &Bill) {
        let title = if load.events > 0.0 { format!("{} events", grouped(load.events, 0)) } else { events(0.0) };
        let mut table = output::table(&[&title, "units", "price", "dollars", "after"]);
        for line in &bill.lines {
            let price = self.prices.prices.get(&line.item).map(price).unwrap_or_default();
            table.add_row([
                line.item.name(),
                &grouped(line.units, 0),
                &price,
                &grouped(line.list, 2),
                &grouped(line.after_free, 2),
            ]);
        }
        table.add_row(["sum", "", "", &grouped(bill.list(), 2), &grouped(bill.after_free(), 2)]);
        table.align_right_from(1);
        output::print(&table);
        output::line("AFTER is what is left of it in an account whose free tiers nothing else uses.");
        if load.events > 0.0 {
            output::line("");
            let mut table = output::table(&["instead", "dollars", "but"]);
            for design in Design::all(load, self.counted) {
                table.add_row([design.name, &dollars(design.list(self.prices)), design.lacks]);
            }
            output::print(&table);
        }
    }

    fn json(&self) -> Value {
        let bill = |load: &Load| {
            let bill = Bill::of(load, self.counted, self.prices);
            let line = |line: &Line| json!({ "line": line.item, "units": line.units, "list": cents(line.list), "after_free": cents(line.after_free) });
            let design = |design: Design| json!({ "design": design.name, "list": design.list(self.prices).map(cents), "lacks": design.lacks });
            json!({
                "events": load.events,
                "duplicates_per_event": load.duplicates,
                "effects_per_event": load.effects,
                "refused": load.refused,
                "lines": bill.lines.iter().map(line).collect::<Vec<_>>(),
                "list": cents(bill.list()),
                "after_free": cents(bill.after_free()),
                "instead": Design::all(load, self.counted).map(design),
            })
        };
        let units = WriteUnits::of_event(self.record_bytes, self.counted.plan_writes);
        json!({
            "region": self.prices.region,
            "body_bytes": self.loads.last().map(|load| load.body_bytes),
            "record_bytes": self.record_bytes.round(),
            "write_units_of_an_event": units.total(),
            "bills": self.loads.iter().map(bill).collect::<Vec<_>>(),
            "prices": self.prices.prices,
        })
    }
}

/// A number of dollars, to a hundredth of a cent.
fn cents(dollars: f64) -> f64 {
    (dollars * 1e4).round() / 1e4
}

/// Dollars in a cell of a table; a dash where there is no price.
fn dollars(dollars: Option<f64>) -> String {
    dollars.map_or_else(|| "-".to_owned(), |dollars| grouped(dollars, 2))
}

/// The first price of a kind of unit.
fn price(price: &Price) -> String {
    let dollars = price.tiers.first().map_or(0.0, |tier| tier.dollars);
    let dollars = if (dollars * 100.0).fract() > 1e-6 { plain(dollars) } else { format!("{dollars:.2}") };
    match price.per {
        1e6 => format!("{dollars} a million"),
        1e9 => format!("{dollars} a billion"),
        _ => format!("{dollars} each"),
    }
}

/// A number as short as it is.
fn plain(number: f64) -> String {
    ((number * 1e4).round() / 1e4).to_string()
}

/// The events of a month, above a column.
fn events(events: f64) -> String {
    for (times, suffix) in [(1e6, "M"), (1e3, "k")] {
        if events >= times && (events / times * 10.0).fract() == 0.0 {
            return format!("{}{suffix}", events / times);
        }
    }
    if events > 0.0 { grouped(events, 0) } else { "at rest".to_owned() }
}

/// A number with a comma between thousands.
fn grouped(number: f64, decimals: usize) -> String {
    let text = format!("{number:.decimals$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let comma = |(at, digit): (usize, char)| {
        let is_between = at > 0 && (whole.len() - at).is_multiple_of(3);
        [is_between.then_some(','), Some(digit)].into_iter().flatten()
    };
    whole.chars().enumerate().flat_map(comma).chain(rest.chars()).collect()
}
