//! A handler in another language, as Lambda invokes it. It asks for an item of a user table, then counts in that table
//! and in the domain table.

use std::sync::Arc;

use aws_sdk_dynamodb::types::ScalarAttributeType;
use hookonce_local::clients::without_key;
use hookonce_protocol::call::Written;
use hookonce_protocol::place::{ItemRef, TableAlias};
use hookonce_protocol::purpose::Purpose;
use hookonce_protocol::write::{Action, Change, Condition, Table, Write};
use hookonce_runtime::port::Store as _;
use serde_json::{Value, json};

use super::fault_plan::{FaultPlan, Role, RoleInjector};
use crate::support::remote::to;
use crate::support::stack::TestStack;
use crate::support::wire::{Proxy, ScriptedServer};

/// The endpoint whose events it handles, the function that it is, and the alias of its table.
pub(crate) const REMOTE: &str = "remote";

/// The fact that every event is to it.
pub(crate) const FACT: &str = "remote#counting#one";

/// The attribute in which it counts, and the partition key of its table.
const COUNT: &str = "applied";
const KEY: &str = "id";

/// The handler behind a proxy.
pub(crate) struct Handler {
    _server: ScriptedServer,
    proxy: Proxy,
}

impl Handler {
    pub(crate) async fn start(plan: &Arc<FaultPlan>) -> Self {
        let server = ScriptedServer::start(|_, request| {
            let request = request.json();
            (200, to(&request, answer(&request)).to_string())
        })
        .await;
        let injector = Arc::new(RoleInjector { role: Role::Worker, plan: Arc::clone(plan) });
        let proxy = Proxy::start(server.url(), &injector).await;
        Self { _server: server, proxy }
    }

    /// Where the worker invokes it.
    pub(crate) fn url(&self) -> String {
        without_key(self.proxy.url())
    }
}

/// Its answer to a request.
pub(crate) fn answer(request: &Value) -> Value {
    let (table, key) = (REMOTE, json!({ KEY: {"S": "one"} }));
    let Some(shown) = request["items"].get(0) else {
        return json!({ "fact": "one", "reads": [{ "table": table, "key": key }] });
    };
    let condition = match &shown["item"][COUNT] {
        Value::Null => json!({ "absent": COUNT }),
        count => json!({ "equals": [COUNT, count] }),
    };
    let count = json!({ "update": [{ "add": [COUNT, 1] }] });
    json!({ "fact": "one", "writes": [
        { "table": table, "key": key, "action": count, "condition": [condition] },
        { "key": "remote#count#one", "action": count },
    ] })
}

/// The route of its events.
pub(crate) fn route() -> Value {
    json!({ "name": REMOTE, "consumer": "counting", "endpoints": [REMOTE], "handler": {"lambda": REMOTE}, "tables": [REMOTE] })
}

/// The alias of its table.
pub(crate) fn alias() -> TableAlias {
    TableAlias::parse(REMOTE).unwrap()
}

/// A fresh stack with its table.
pub(crate) async fn stack() -> TestStack {
    TestStack::new().await.with_table(REMOTE, &[(KEY, ScalarAttributeType::S)]).await
}

/// Counts in its table, as if the handler had done it.
pub(crate) async fn count(stack: &TestStack) {
    let write = Write {
        purpose: Purpose::DomainWrite,
        table: Table::Own(alias()),
        key: ItemRef::own(alias(), [(KEY, "one".into())]).key,
        action: Action::Update(vec![Change::Add(COUNT.into(), 1)]),
        condition: Condition::default(),
    };
    assert_eq!(stack.store().write(&write).await, Written::Applied);
}

/// How often it has counted in its table.
pub(crate) async fn counted(stack: &TestStack) -> i64 {
    let items = stack.scan(Table::Own(alias())).await;
    items.iter().filter_map(|item| item.get(COUNT)?.as_i64()).sum()
}
