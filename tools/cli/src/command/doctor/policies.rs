//! What a resource policy says, however it is written.

use serde_json::Value;

/// The statements of a policy in one form: without their names, and in one order, as are the lists in them.
pub(super) fn statements(policy: &Value) -> Vec<String> {
    let all = match policy.get("Statement") {
        Some(Value::Array(all)) => all.as_slice(),
        Some(one) => std::slice::from_ref(one),
        None => &[],
    };
    let mut all: Vec<_> = all.iter().map(|statement| sorted(statement).to_string()).collect();
    all.sort();
    all
}

/// A value whose lists are in one order.
pub(super) fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(list) => {
            let mut list: Vec<_> = list.iter().map(sorted).collect();
            list.sort_by_key(Value::to_string);
            // AWS may write a list of one as its only member.
            if let [one] = list.as_slice() { one.clone() } else { list.into() }
        }
        Value::Object(fields) => {
            let named = fields.iter().filter(|(name, _)| *name != "Sid");
            let fields: serde_json::Map<_, _> = named.map(|(name, value)| (name.clone(), sorted(value))).collect();
            // Everybody, in the longer form.
            let is_everybody = fields.len() == 1 && fields.get("AWS").is_some_and(|who| who == "*");
            if is_everybody { "*".into() } else { fields.into() }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use hookonce_local::tables::{documents_policy, queue_policy};

    use super::*;

    fn parsed(text: &str) -> Vec<String> {
        statements(&serde_json::from_str(text).unwrap())
    }

    #[test]
    fn a_policy_is_compared_by_what_it_says_and_not_by_how_it_is_written() {
        let (arn, users) = ("arn:queue", ["arn:worker".to_owned(), "arn:relay".to_owned()]);
        let usual = queue_policy(arn, &users, Some("arn:relay"));
        let text = usual.to_string();
        let swapped = text.replace(r#"["arn:worker","arn:relay"]"#, r#"["arn:relay","arn:worker"]"#);
        let named = text.replacen(r#"{"Action""#, r#"{"Sid":"One","Action""#, 1);
        let longer = text.replace(r#""Principal":"*""#, r#""Principal":{"AWS":["*"]}"#);
        for same in [&swapped, &named, &longer] {
            assert!(*same != text && parsed(same) == statements(&usual), "{same}");
        }
        for (old, new) in [
            ("Deny", "Allow"),
            (r#""aws:SecureTransport":"false""#, r#""aws:SecureTransport":"true""#),
            (r#""arn:worker","#, ""),
            (r#""sqs:PurgeQueue""#, r#""sqs:GetQueueUrl""#),
            ("arn:queue", "arn:another"),
            (r#""Principal":"*""#, r#""Principal":{"AWS":"arn:somebody"}"#),
            ("[{", r#"[{"Effect":"Allow","Principal":"*","Action":"sqs:*","Resource":"*"},{"#),
        ] {
            assert!(parsed(&text.replacen(old, new, 1)) != statements(&usual), "{new}");
        }
        assert!(statements(&Value::Null).is_empty());
    }

    #[test]
    fn a_policy_with_one_statement_may_be_written_without_a_list() {
        let (usual, text) = (documents_policy(), documents_policy().to_string());
        let alone = text.replace("[{", "{").replace("}]", "}");
        assert!(alone != text && parsed(&alone) == statements(&usual), "{alone}");
    }
}
