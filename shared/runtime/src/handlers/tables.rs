//! User tables: which table an alias stands for.

use std::collections::{BTreeMap, BTreeSet};

use hookonce_protocol::place::TableAlias;

/// The most user tables.
pub const OWN_TABLES_MAX: usize = 20;

/// The name of each user table. All stand in the worker's account and region: a transaction spans no others.
pub type OwnTables = BTreeMap<TableAlias, String>;

/// Reads `orders=prod-orders,stock=prod-stock`. `taken` are the names of the stack's own tables, which no alias may
/// stand for: handlers would reach records and domain keys.
///
/// # Errors
/// Every fault, as a sentence that begins with the alias.
pub fn own_tables(text: &str, taken: [&str; 3]) -> Result<OwnTables, Vec<String>> {
    let (mut tables, mut faults) = (OwnTables::new(), Vec::new());
    let mut known: Vec<&str> = taken.into_iter().filter(|name| !name.is_empty()).collect();
    for entry in text.split(',').map(str::trim) {
        let Some((alias, name)) = entry.split_once('=') else {
            faults.push(format!("`{entry}` must be ALIAS=TABLE"));
            continue;
        };
        let Ok(parsed) = TableAlias::parse(alias) else {
            faults.push(format!("`{alias}` must have 1 to 32 of the characters a-z, 0-9, - and _"));
            continue;
        };
        if !is_table_name(name) {
            faults.push(format!(
                "{alias} must be the name of a table, not its ARN: all tables stand in one account and region"
            ));
            continue;
        }
        // Tables of DynamoDB differ by case; here they do not, so that a slip of the keyboard is told at once.
        if known.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            faults.push(format!("{alias} stands for a table of the stack itself, or of another alias"));
        }
        known.push(name);
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

/// Whether this is the name of a table. Names are compared to keep the tables of the stack out of reach, so an ARN,
/// another spelling of a name, is not accepted.
pub(crate) fn is_table_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    (3..=255).contains(&name.len()) && name.bytes().all(plain)
}
