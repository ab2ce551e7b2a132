//! Tables of one's own: which table an alias stands for.

use std::collections::{BTreeMap, BTreeSet};

use hookonce_protocol::place::TableAlias;

/// The most tables of one's own.
pub const OWN_TABLES_MAX: usize = 20;

/// The name or ARN of each table of one's own.
pub type OwnTables = BTreeMap<TableAlias, String>;

/// Reads `orders=prod-orders,stock=arn:aws:dynamodb:eu-central-1:123456789012:table/stock`. `taken` are the names of the
/// stack's own tables, which no alias may stand for: handlers would reach records and domain keys.
///
/// # Errors
/// Every fault, as a sentence that begins with the alias.
pub fn own_tables(text: &str, taken: [&str; 2]) -> Result<OwnTables, Vec<String>> {
    let (mut tables, mut faults) = (OwnTables::new(), Vec::new());
    let mut known: Vec<Table<'_>> = taken.into_iter().filter(|name| !name.is_empty()).map(Table::Name).collect();
    for entry in text.split(',').map(str::trim) {
        let Some((alias, name)) = entry.split_once('=') else {
            faults.push(format!("`{entry}` must be ALIAS=TABLE"));
            continue;
        };
        let Ok(parsed) = TableAlias::parse(alias) else {
            faults.push(format!("`{alias}` must have 1 to 32 of the characters a-z, 0-9, - and _"));
            continue;
        };
        let Some(table) = Table::parse(name) else {
            faults.push(format!("{alias} must be the name or the ARN of a table"));
            continue;
        };
        if known.iter().any(|known| known.may_be(&table)) {
            faults.push(format!("{alias} stands for a table of the stack itself, or of another alias"));
        }
        known.push(table);
        if tables.insert(parsed, name.to_owned()).is_some() {
            faults.push(format!("{alias} stands for two tables"));
        }
    }
    if tables.len() > OWN_TABLES_MAX {
        faults.push(format!("there must be at most {OWN_TABLES_MAX} tables"));
    }
    if faults.is_empty() { Ok(tables) } else { Err(faults) }
}

/// The aliases of these tables.
pub fn aliases(tables: &OwnTables) -> BTreeSet<TableAlias> {
    tables.keys().copied().collect()
}

/// How a table is written.
#[derive(Debug)]
enum Table<'a> {
    /// In the worker's own account and region.
    Name(&'a str),
    /// Anywhere.
    Arn(&'a str),
}

impl<'a> Table<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        let is_name = |name: &str| (3..=255).contains(&name.len()) && name.bytes().all(plain);
        if is_name(text) {
            return Some(Self::Name(text));
        }
        let parts: Vec<_> = text.splitn(6, ':').collect();
        match parts.as_slice() {
            ["arn", partition, "dynamodb", region, account, table]
                if [partition, region, account].iter().all(|part| !part.is_empty() && part.bytes().all(plain))
                    && table.strip_prefix("table/").is_some_and(is_name) =>
            {
                Some(Self::Arn(text))
            }
            _ => None,
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Name(name) => name,
            Self::Arn(arn) => arn.rsplit('/').next().unwrap_or_default(),
        }
    }

    /// Whether both may be one table. A name does not say its account, so it may be any ARN with this name. Tables of
    /// DynamoDB differ by case; here they do not, so that a slip of the keyboard is told at once.
    fn may_be(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Arn(one), Self::Arn(two)) => one.eq_ignore_ascii_case(two),
            _ => self.name().eq_ignore_ascii_case(other.name()),
        }
    }
}
