//! Random edits of a server touch no byte of the others.

use proptest::prelude::*;

use super::*;

/// Byte ranges of the servers of [`SAMPLE`], each with the comment lines directly above it.
fn entry_range(name: &str) -> std::ops::Range<usize> {
    let (from, to) = match name {
        "files" => ("  # Files of", "\n  # Issues"),
        "github" => ("  # Issues", "  docs:"),
        _ => ("  docs:", "\n# Everything"),
    };
    SAMPLE.find(from).unwrap()..SAMPLE.find(to).unwrap()
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,8}",
        r"[ -~]{0,20}",
        r"\PC{0,10}",
        Just("${TOKEN}".to_owned()),
        Just("yes".to_owned()),
        Just("a\nb\n".to_owned()),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        Just(Value::Null),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::vec((text(), inner), 0..3)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

fn entry() -> impl Strategy<Value = Value> {
    let key = prop_oneof![
        Just("command"),
        Just("env"),
        Just("tools"),
        Just("timeout"),
        Just("x y")
    ];
    proptest::collection::vec((key, value()), 1..5).prop_map(|pairs| {
        Value::Object(
            pairs
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect(),
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn bytes_outside_the_edited_entry_stay(
        name in prop_oneof![Just("files"), Just("github"), Just("docs")],
        entry in entry(),
        remove in proptest::bool::weighted(0.2),
    ) {
        let mut file = file(SAMPLE);
        if remove {
            prop_assert!(file.remove_server(name));
        } else {
            file.set_server(name, &entry);
            prop_assert_eq!(&file.document["mcp_servers"][name], &entry);
        }
        prop_assert_eq!(&file.failed_key, &None);
        let text = file.text();
        let range = entry_range(name);
        prop_assert!(text.starts_with(&SAMPLE[..range.start]), "{}", text);
        prop_assert!(text.ends_with(&SAMPLE[range.end..]), "{}", text);
    }

    #[test]
    fn bytes_around_a_new_entry_stay(name in text(), entry in entry()) {
        prop_assume!(!["files", "github", "docs", ""].contains(&name.as_str()));
        let mut file = file(SAMPLE);
        file.set_server(&name, &entry);
        prop_assert_eq!(&file.failed_key, &None);
        prop_assert_eq!(&file.document["mcp_servers"][&name], &entry);
        let text = file.text();
        let end = entry_range("docs").end;
        prop_assert!(text.starts_with(&SAMPLE[..end]), "{}", text);
        prop_assert!(text.ends_with(&SAMPLE[end..]), "{}", text);
    }

    #[test]
    fn one_key_changes_nothing_around_it(
        path in prop_oneof![
            Just(vec!["command"]),
            Just(vec!["env", "TOKEN"]),
            Just(vec!["tools", "include"]),
            Just(vec!["new"]),
            Just(vec!["sampling", "model"]),
        ],
        value in value(),
    ) {
        let mut file = file(SAMPLE);
        file.set_server_key("github", &path, value.clone());
        prop_assert_eq!(&file.failed_key, &None);
        let set = document::get(&file.document["mcp_servers"]["github"], &path).unwrap();
        prop_assert!(document::is_equivalent(set, &value));
        let range = entry_range("github");
        prop_assert!(file.text().starts_with(&SAMPLE[..range.start]));
        prop_assert!(file.text().ends_with(&SAMPLE[range.end..]));
    }
}
