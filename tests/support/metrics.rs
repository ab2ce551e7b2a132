//! `tests/metrics.txt`: every metric that can exist, and the lines that typical runs emit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde_json::Value;

use super::document;

/// The run of the relay in which it finds nothing to do. A stack without traffic emits this line each minute, and no
/// other.
pub(crate) const AT_REST: &str = "relay, nothing to do";

/// A metric that CloudWatch has, and bills: by whom it is counted, its name, and whether it also exists for each code.
pub(crate) type Series = (String, String, bool);

/// What the file says.
pub(crate) struct Golden {
    /// Every metric that can exist. What counts it is a function, or `log` for a filter, which has no dimension.
    pub(crate) series: BTreeSet<Series>,
    /// The lines of each run, by its name.
    pub(crate) runs: BTreeMap<String, Vec<String>>,
}

impl Golden {
    fn parse(text: &str) -> Self {
        let mut sections = text.split("\n# ").skip(1).map(|section| section.split_once('\n').unwrap());
        let (_, metrics) = sections.next().expect("the first section lists the metrics");
        let series = metrics.lines().filter(|line| !line.is_empty()).map(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            let (by, name, codes) = (words[0].to_owned(), words[1].to_owned(), &words[2..]);
            assert!(codes.is_empty() || *codes == ["code"], "{line}");
            (by, name, !codes.is_empty())
        });
        let series: BTreeSet<_> = series.collect();
        let lines = |text: &str| text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
        Self { series, runs: sections.map(|(name, text)| (name.to_owned(), lines(text))).collect() }
    }

    /// Whether something may count this metric.
    pub(crate) fn has(&self, by: &str, name: &str, is_coded: bool) -> bool {
        let found = |is_coded| self.series.contains(&(by.to_owned(), name.to_owned(), is_coded));
        found(true) || !is_coded && found(false)
    }

    /// The names of all metrics.
    pub(crate) fn names(&self) -> BTreeSet<String> {
        self.series.iter().map(|(_, name, _)| name.clone()).collect()
    }

    /// The metrics that exist while nothing is delivered, with their values.
    pub(crate) fn at_rest(&self) -> BTreeMap<String, f64> {
        let [line] = &self.runs[AT_REST][..] else { panic!("one line each minute") };
        let value: Value = serde_json::from_str(line).unwrap();
        series(line).into_iter().map(|(_, name, _)| (name.clone(), value[name].as_f64().unwrap())).collect()
    }

    /// What a line counts that is not in the list.
    pub(crate) fn strange(&self, line: &str) -> Vec<Series> {
        series(line).into_iter().filter(|(by, name, is_coded)| !self.has(by, name, *is_coded)).collect()
    }
}

/// The metrics that CloudWatch counts from a line.
pub(crate) fn series(line: &str) -> Vec<Series> {
    let line: Value = serde_json::from_str(line).unwrap();
    let directives = line["_aws"]["CloudWatchMetrics"].as_array().unwrap().iter();
    let of = |directive: &Value| {
        let names = directive["Metrics"].as_array().unwrap().iter().map(|metric| metric["Name"].clone());
        let is_coded = directive["Dimensions"].as_array().unwrap().len() > 1;
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        names.map(|name| (text(&line["function"]), text(&name), is_coded)).collect::<Vec<_>>()
    };
    directives.flat_map(of).collect()
}

/// The file as it is.
pub(crate) fn golden() -> &'static Golden {
    static GOLDEN: LazyLock<Golden> = LazyLock::new(|| Golden::parse(&document("tests/metrics.txt")));
    &GOLDEN
}
