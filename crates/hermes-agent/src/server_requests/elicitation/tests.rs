use std::sync::Arc;

use hermes_mcp::server_request::ConversationId;
use serde_json::json;

use super::*;

fn field(schema: &Value) -> FormField {
    form(&json!({"properties": {"x": schema}})).fields.remove(0)
}

fn form(schema: &Value) -> Form {
    Form::from_schema(schema).unwrap()
}

/// What a typed text becomes, or what is said about it.
fn read(field: &FormField, text: &str) -> Result<Value, String> {
    field
        .parse_text(text)
        .map_err(|invalid| invalid.to_string())
}

#[test]
fn fields_keep_their_order_and_say_what_they_are() {
    let form = form(&json!({
        "type": "object",
        "properties": {
            "zip": {"type": "string", "title": "Zip code", "description": "Five digits"},
            "age": {"type": "integer", "description": "age"},
            "apiKey": {"type": "string"},
        },
        "required": ["age"],
    }));
    let shown: Vec<_> = form
        .fields
        .iter()
        .map(|field| {
            (
                field.title.as_str(),
                field.description.as_deref(),
                field.is_required,
                field.is_sensitive,
            )
        })
        .collect();
    let expected = [
        ("Zip code", Some("Five digits"), false, false),
        // A description that repeats the name says nothing.
        ("age", None, true, false),
        ("apiKey", None, false, true),
    ];
    assert_eq!(shown, expected);
}

#[test]
fn typed_texts_become_the_right_json() {
    let number = field(&json!({"type": "number"}));
    assert_eq!(read(&number, " 1.5 "), Ok(json!(1.5)));
    assert_eq!(read(&number, "3"), Ok(json!(3)));
    assert_eq!(read(&number, "three"), Err("must be a number".into()));
    let integer = field(&json!({"type": "integer"}));
    assert_eq!(read(&integer, "-42"), Ok(json!(-42)));
    assert_eq!(read(&integer, "1.5"), Err("must be a whole number".into()));
    let boolean = field(&json!({"type": "boolean"}));
    assert_eq!(read(&boolean, "Yes"), Ok(json!(true)));
    assert_eq!(read(&boolean, "false"), Ok(json!(false)));
    assert_eq!(read(&boolean, "perhaps"), Err("must be yes or no".into()));
    let text = field(&json!({"type": "string"}));
    assert_eq!(read(&text, "42"), Ok(json!("42")));
}

#[test]
fn limits_are_enforced_with_a_clear_message() {
    let text = field(&json!({"type": "string", "minLength": 2, "maxLength": 3}));
    assert_eq!(
        read(&text, "ä"),
        Err("must have at least 2 characters".into())
    );
    assert_eq!(read(&text, "äöü"), Ok(json!("äöü")));
    assert_eq!(
        read(&text, "äöüx"),
        Err("must have at most 3 characters".into())
    );
    let number = field(&json!({"type": "number", "minimum": 0.5, "maximum": 2}));
    assert_eq!(read(&number, "0.4"), Err("must be at least 0.5".into()));
    assert_eq!(read(&number, "2.1"), Err("must be at most 2".into()));
    let integer = field(&json!({"type": "integer", "minimum": 0, "maximum": 150}));
    assert_eq!(read(&integer, "-1"), Err("must be at least 0".into()));
    assert_eq!(read(&integer, "151"), Err("must be at most 150".into()));
    let pattern = field(&json!({"type": "string", "pattern": "^[A-Z]+$"}));
    assert_eq!(read(&pattern, "ABC"), Ok(json!("ABC")));
    assert_eq!(read(&pattern, "abc"), Err("must match ^[A-Z]+$".into()));
}

#[test]
fn formats_are_checked() {
    let cases: [(&str, &[&str], &[&str]); 4] = [
        (
            "email",
            &["ada@example.com", "a.b+c@x.y.z"],
            &["ada", "@example.com", "ada@host", "a b@x.y", "a@x..y"],
        ),
        (
            "uri",
            &["https://example.com/a?b", "mailto:a@b.c"],
            &["example.com", "", "/path"],
        ),
        (
            "date",
            &["2026-02-28"],
            &["2026-02-30", "28.2.2026", "2026-02-28T10:00:00Z"],
        ),
        (
            "date-time",
            &["2026-02-28T10:00:00Z", "2026-02-28T10:00:00.5+02:00"],
            &["2026-02-28", "10:00", "2026-02-28T10:00:00"],
        ),
    ];
    for (format, good, bad) in cases {
        let field = field(&json!({"type": "string", "format": format}));
        for text in good {
            assert_eq!(read(&field, text), Ok(json!(text)), "{format}");
        }
        for text in bad {
            assert!(
                read(&field, text).unwrap_err().starts_with("must be a"),
                "{format}: {text}"
            );
        }
    }
}

#[test]
fn a_choice_is_made_by_value_title_or_number() {
    let plain_enum = field(&json!({"type": "string", "enum": ["red", "blue"]}));
    assert_eq!(read(&plain_enum, "blue"), Ok(json!("blue")));
    assert_eq!(read(&plain_enum, "BLUE"), Ok(json!("blue")));
    assert_eq!(read(&plain_enum, "1"), Ok(json!("red")));
    assert_eq!(
        read(&plain_enum, "0"),
        Err("`0` is not one of the choices".into())
    );
    assert_eq!(
        read(&plain_enum, "3"),
        Err("`3` is not one of the choices".into())
    );
    let titled = field(&json!({"type": "string", "oneOf": [
        {"const": "s", "title": "Small"}, {"const": "l", "title": "Large"},
    ]}));
    assert_eq!(read(&titled, "large"), Ok(json!("l")));
    let named =
        field(&json!({"type": "string", "enum": ["s", "l"], "enumNames": ["Small", "Large"]}));
    assert_eq!(read(&named, "Small"), Ok(json!("s")));
    // A value that looks like a number is meant as the value.
    let digits = field(&json!({"type": "string", "enum": ["2", "1"]}));
    assert_eq!(read(&digits, "2"), Ok(json!("2")));
}

#[test]
fn several_choices_are_counted() {
    for items in [
        json!({"type": "string", "enum": ["mon", "tue", "wed"]}),
        json!({"anyOf": [
            {"const": "mon", "title": "Monday"}, {"const": "tue", "title": "Tuesday"}, {"const": "wed", "title": "Wed"},
        ]}),
    ] {
        let days = field(&json!({"type": "array", "minItems": 1, "maxItems": 2, "items": items}));
        assert_eq!(read(&days, "mon, 3"), Ok(json!(["mon", "wed"])));
        assert_eq!(
            read(&days, ""),
            Err("needs at least 1 of the choices".into())
        );
        assert_eq!(
            read(&days, "1,2,3"),
            Err("takes at most 2 of the choices".into())
        );
        assert_eq!(
            read(&days, "sun"),
            Err("`sun` is not one of the choices".into())
        );
    }
}

#[test]
fn only_a_default_that_fits_is_offered() {
    assert_eq!(
        field(&json!({"type": "integer", "default": 3})).default,
        Some(json!(3))
    );
    assert_eq!(
        field(&json!({"type": "integer", "default": "3"})).default,
        None
    );
    assert_eq!(
        field(&json!({"type": "integer", "maximum": 2, "default": 3})).default,
        None
    );
    assert_eq!(
        field(&json!({"type": "string", "enum": ["a"], "default": "b"})).default,
        None
    );
    let several =
        json!({"type": "array", "items": {"type": "string", "enum": ["a"]}, "default": ["a"]});
    assert_eq!(field(&several).default, Some(json!(["a"])));
}

#[test]
fn a_schema_that_is_not_a_form_is_refused() {
    let nested = json!({"properties": {"where": {"type": "object", "properties": {}}}});
    let error = Form::from_schema(&nested).unwrap_err();
    assert_eq!(error, FormSchemaError::UnknownKind("where".into()));
    let free_list = json!({"properties": {"tags": {"type": "array", "items": {"type": "string"}}}});
    assert!(Form::from_schema(&free_list).is_err());
    assert!(Form::from_schema(&json!({})).is_err());
    assert!(form(&json!({"properties": {}})).fields.is_empty());
}

#[test]
fn answers_are_checked_as_a_whole() {
    let form = form(&json!({
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name"],
    }));
    let check = |answers: Value| {
        let Value::Object(answers) = answers else {
            panic!()
        };
        let checked = form.check(answers);
        checked
            .map(Value::Object)
            .map_err(|(field, invalid)| format!("{} {invalid}", field.name))
    };
    assert_eq!(
        check(json!({"age": 1})),
        Err("name must be filled in".into())
    );
    assert_eq!(
        check(json!({"name": null})),
        Err("name must be filled in".into())
    );
    assert_eq!(
        check(json!({"name": "A", "age": "1"})),
        Err("age must be a whole number".into())
    );
    // What was not asked for does not go out.
    assert_eq!(
        check(json!({"name": "A", "age": null, "more": 1})),
        Ok(json!({"name": "A"}))
    );
}

#[test]
fn what_is_shown_cannot_steer_the_terminal() {
    let field = field(&json!({
        "type": "string", "title": "Na\u{1b}[2Jme", "description": "\u{1b}]0;x\u{7}Yours",
        "enum": ["\u{1b}[1ma"],
    }));
    assert_eq!(
        (field.title.as_str(), field.description.as_deref()),
        ("Name", Some("Yours"))
    );
    let expected = FormChoice {
        value: "\u{1b}[1ma".into(),
        title: "a".into(),
    };
    assert_eq!(field.choices(), [expected]);
}

struct DecliningUi;

impl ElicitationUi for DecliningUi {
    fn fill_form(
        &self,
        _: FormRequest,
    ) -> BoxFuture<'_, Result<ElicitationAnswer<Map<String, Value>>, ElicitationUnavailable>> {
        Box::pin(std::future::ready(Ok(ElicitationAnswer::Declined)))
    }

    fn confirm_link(
        &self,
        _: LinkRequest,
    ) -> BoxFuture<'_, Result<ElicitationAnswer<()>, ElicitationUnavailable>> {
        Box::pin(std::future::ready(Ok(ElicitationAnswer::Declined)))
    }
}

#[test]
fn a_question_goes_to_the_person_of_its_conversation_and_to_nobody_else() {
    let people = ElicitationRegistry::new(ElicitationModes::ALL);
    let name = |name: &str| ConversationId(name.into());
    let find = |conversation: Option<&str>| {
        let slot = people.find_slot(conversation.map(name).as_ref());
        slot.map(|slot| Arc::as_ptr(&slot.ui).cast::<u8>())
    };
    assert_eq!(find(None), None);
    let ada: Arc<dyn ElicitationUi> = Arc::new(DecliningUi);
    let ada_is_here = people.register(name("a"), ada.clone());
    assert!(find(Some("a")).is_some() && find(None).is_some());
    assert_eq!(find(Some("b")), None);
    let bob_is_here = people.register(name("b"), Arc::new(DecliningUi));
    // Whose it is cannot be told any more.
    assert_eq!(find(None), None);
    // A second time in the same place, before the first has ended.
    let again = people.register(name("a"), ada);
    drop(ada_is_here);
    assert!(find(Some("a")).is_some());
    drop((again, bob_is_here));
    assert_eq!(find(Some("a")), None);
}

#[test]
fn a_yes_means_the_defaults_and_no_more() {
    let agreed_to = |properties: &Value, required: &[&str]| {
        let schema = json!({"type": "object", "properties": properties, "required": required});
        form(&schema).default_answers().map(Value::Object)
    };
    assert_eq!(agreed_to(&json!({}), &[]), Some(json!({})));
    let fields = json!({
        "sure": {"type": "boolean"}, "name": {"type": "string", "default": "x"},
        "age": {"type": "integer"},
    });
    assert_eq!(
        agreed_to(&fields, &["sure"]),
        Some(json!({"sure": true, "name": "x"}))
    );
    assert_eq!(agreed_to(&fields, &["age"]), None);
}
