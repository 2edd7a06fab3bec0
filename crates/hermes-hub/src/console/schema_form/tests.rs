//! Forms of usual and of hostile schemas.

use std::collections::BTreeMap;

use serde_json::json;

use super::{field_view::FieldView, *};

fn typed(fields: &[(&str, &str)]) -> Fields {
    let fields = fields.iter();
    fields
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn read(schema: &Value, fields: &[(&str, &str)]) -> Result<Value, Vec<(String, FieldProblem)>> {
    let read = read_arguments(&SchemaForm::new(schema), &typed(fields));
    if read.problems.is_empty() {
        Ok(Value::Object(read.arguments))
    } else {
        Err(read.problems.into_iter().collect())
    }
}

fn shown(schema: &Value) -> Vec<FieldView> {
    let items = show_items(&SchemaForm::new(schema), None, &BTreeMap::new());
    let fields = items.into_iter().filter_map(|item| match item {
        FormItem::Field(field) | FormItem::Boxes(field, _) => Some(field),
        FormItem::GroupStart { .. } | FormItem::GroupEnd => None,
    });
    fields.collect()
}

fn names(schema: &Value) -> Vec<String> {
    shown(schema).into_iter().map(|field| field.name).collect()
}

#[test]
fn fields_become_values_of_their_types() {
    let schema = json!({"type": "object", "required": ["text", "n"], "properties": {
        "text": {"type": "string"},
        "n": {"type": "integer"},
        "x": {"type": "number"},
        "on": {"type": "boolean"},
        "color": {"enum": ["red", 7, null]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "sizes": {"type": "array", "items": {"type": "integer"}},
        "where": {"type": "object", "properties": {"city": {"type": "string"},
            "at": {"type": "object", "properties": {"lat": {"type": "number"}}}}},
        "any": {},
        "absent": {"type": "string"}
    }});
    let arguments = read(
        &schema,
        &[
            ("arg.text", "one\r\ntwo"),
            ("arg.n", " 42 "),
            ("arg.x", "5"),
            ("arg.on", "false"),
            ("arg.color", "7"),
            ("arg.tags", "a b\r\n\r\nc"),
            ("arg.sizes", "[1, 2]"),
            ("arg.where.city", "Ulm"),
            ("arg.where.at.lat", "48.4"),
            ("arg.any", "{\"deep\": [1]}"),
            ("arg.absent", ""),
            ("csrf", "x"),
        ],
    );
    let wanted = json!({"text": "one\ntwo", "n": 42, "x": 5, "on": false, "color": 7, "tags": ["a b", "c"],
        "sizes": [1, 2], "where": {"city": "Ulm", "at": {"lat": 48.4}}, "any": {"deep": [1]}});
    assert_eq!(arguments, Ok(wanted));
}

#[test]
fn each_wrong_field_is_told_by_its_name_and_keeps_what_was_typed() {
    use FieldProblem::{Missing, NotChoice, NotInteger, NotJson, NotNumber};
    let schema = json!({"type": "object", "required": ["text"], "properties": {
        "text": {"type": "string"}, "n": {"type": "integer"}, "x": {"type": "number"},
        "color": {"enum": ["red"]}, "any": {}, "sizes": {"type": "array", "items": {"type": "number"}}}});
    let fields = [
        ("arg.n", "4.5"),
        ("arg.x", "NaN"),
        ("arg.color", "blue"),
        ("arg.any", "{"),
        ("arg.sizes", "1\nx"),
    ];
    let problems: BTreeMap<_, _> = read(&schema, &fields).unwrap_err().into_iter().collect();
    let wanted = [
        ("arg.any", NotJson),
        ("arg.color", NotChoice),
        ("arg.n", NotInteger),
        ("arg.sizes", NotNumber),
        ("arg.text", Missing),
        ("arg.x", NotNumber),
    ];
    let wanted: BTreeMap<_, _> = wanted
        .into_iter()
        .map(|(name, problem)| (name.to_owned(), problem))
        .collect();
    assert_eq!(problems, wanted);
    let fields = typed(&fields);
    let items = show_items(&SchemaForm::new(&schema), Some(&fields), &problems);
    let kept = items.iter().any(|item| {
        matches!(item, FormItem::Field(field)
            if field.name == "arg.n" && field.value == "4.5" && field.problem.is_some())
    });
    assert!(kept);
}

#[test]
fn a_group_that_may_be_left_out_needs_its_members_only_once_it_is_begun() {
    let group = json!({"type": "object", "required": ["a"],
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}}});
    let optional = json!({"type": "object", "properties": {"g": group}});
    assert_eq!(read(&optional, &[]), Ok(json!({})));
    assert!(!shown(&optional)[0].is_required);
    let problems = read(&optional, &[("arg.g.b", "x")]).unwrap_err();
    assert_eq!(problems, [("arg.g.a".to_owned(), FieldProblem::Missing)]);
    let nested = json!({"type": "object", "properties": {"outer": {"type": "object", "required": ["g"],
        "properties": {"g": group}}}});
    assert_eq!(read(&nested, &[]), Ok(json!({})));
    let required = json!({"type": "object", "required": ["g"], "properties": {"g": group}});
    assert!(read(&required, &[]).is_err());
    assert!(shown(&required)[0].is_required);
}

#[test]
fn rules_and_defaults_of_a_schema_are_attributes_of_its_fields() {
    let schema = json!({"type": "object", "properties": {
        "n": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
        "day": {"type": "string", "format": "date"},
        "id": {"type": "string", "pattern": "^[a-z0-9_]+$", "maxLength": 20},
        "odd": {"type": "string", "pattern": "^(?<x>[a-"},
        "tags": {"type": "array", "items": {"type": "string"}, "default": ["a", "b"]},
        "note": {"type": "string", "description": "What to say.", "title": "Note"}}});
    let fields = shown(&schema);
    let FieldControl::Input("number", rules) = &fields[0].control else {
        panic!("not a number");
    };
    let wanted = [("step", "1"), ("min", "1"), ("max", "9")];
    assert_eq!(*rules, wanted.map(|(rule, value)| (rule, value.to_owned())));
    assert_eq!(fields[0].value, "3");
    assert!(matches!(fields[1].control, FieldControl::Input("date", _)));
    let FieldControl::Input("text", rules) = &fields[2].control else {
        panic!("not a text");
    };
    assert!(
        rules.contains(&("pattern", "(?:[a-z0-9_]+)".to_owned())),
        "{rules:?}"
    );
    let FieldControl::Input("text", rules) = &fields[3].control else {
        panic!("not a text");
    };
    assert!(rules.is_empty(), "a browser would complain: {rules:?}");
    assert_eq!(fields[4].value, "a\nb");
    assert!(matches!(fields[5].control, FieldControl::Text));
    assert_eq!(fields[5].label, "Note");
    assert_eq!(fields[5].description.as_deref(), Some("What to say."));
}

#[test]
fn what_may_also_be_null_is_what_it_is_otherwise() {
    let schema = json!({"type": "object", "$defs": {"Color": {"enum": ["red", "blue"]}}, "properties": {
        "n": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": null},
        "s": {"type": ["string", "null"]},
        "color": {"allOf": [{"$ref": "#/$defs/Color"}], "description": "Which."},
        "mode": {"oneOf": [{"const": "fast", "title": "Fast"}, {"const": "slow"}]}}});
    let fields = shown(&schema);
    assert!(matches!(
        fields[0].control,
        FieldControl::Input("number", _)
    ));
    assert!(matches!(fields[1].control, FieldControl::Text));
    assert!(matches!(&fields[2].control, FieldControl::Choice(found) if found.len() == 2));
    assert_eq!(fields[2].description.as_deref(), Some("Which."));
    assert!(
        matches!(&fields[3].control, FieldControl::Choice(found) if found[0].title == "Fast" && found[1].title == "slow")
    );
}

#[test]
fn a_list_of_choices_has_a_box_for_each() {
    let schema = json!({"type": "object", "required": ["days"], "properties": {
        "days": {"type": "array", "items": {"enum": ["mo", "tu", "we"], "enumNames": ["Monday"]}, "default": ["tu"]},
        "on": {"type": "boolean"}}});
    let items = show_items(&SchemaForm::new(&schema), None, &BTreeMap::new());
    let Some(FormItem::Boxes(field, choices)) = items.first() else {
        panic!("there are no boxes");
    };
    assert_eq!((field.id.as_str(), field.is_required), ("field-0", true));
    assert_eq!(choices[0].title, "Monday");
    let ticked: Vec<_> = choices.iter().map(|choice| choice.is_chosen).collect();
    assert_eq!(ticked, [false, true, false]);
    assert!(
        matches!(&items[1], FormItem::Field(field) if matches!(field.control, FieldControl::YesNo))
    );
    let ticked = [("arg.days", "mo"), ("arg.days", "we"), ("arg.on", "true")];
    let wanted = json!({"days": ["mo", "we"], "on": true});
    assert_eq!(read(&schema, &ticked), Ok(wanted));
    let none = read(&schema, &[]).unwrap_err();
    assert_eq!(none, [("arg.days".to_owned(), FieldProblem::Missing)]);
    let wrong = read(&schema, &[("arg.days", "su")]).unwrap_err();
    assert_eq!(wrong, [("arg.days".to_owned(), FieldProblem::NotChoice)]);
    let beside = show_empty(&SchemaForm::new(&schema), "one");
    assert!(matches!(&beside[1], FormItem::Field(field) if field.id == "one-1"));
}

#[test]
fn names_with_dots_are_not_taken_for_members() {
    let schema = json!({"type": "object", "properties": {
        "a.b": {"type": "string"}, "a": {"type": "object", "properties": {"b": {"type": "string"}}},
        "50%": {"type": "string"}, "\"><script>": {"type": "string"}}});
    assert_eq!(names(&schema)[..2], ["arg.a%2Eb", "arg.a.b"]);
    let arguments = read(
        &schema,
        &[("arg.a%2Eb", "1"), ("arg.a.b", "2"), ("arg.50%25", "3")],
    );
    assert_eq!(
        arguments,
        Ok(json!({"a.b": "1", "a": {"b": "2"}, "50%": "3"}))
    );
}

#[test]
fn deep_objects_are_json_from_the_third_level_on() {
    let mut schema = json!({"type": "string"});
    for _ in 0..60 {
        schema = json!({"type": "object", "properties": {"in": schema}});
    }
    let fields = shown(&schema);
    assert_eq!(fields.len(), 1);
    assert_eq!(fields[0].name, "arg.in.in.in");
    assert!(matches!(fields[0].control, FieldControl::Json));
    let arguments = read(&schema, &[("arg.in.in.in", "{\"in\": {}}")]);
    assert_eq!(arguments, Ok(json!({"in": {"in": {"in": {"in": {}}}}})));
}

#[test]
fn a_schema_that_refers_to_itself_ends() {
    let schema = json!({"type": "object", "$defs": {
        "Node": {"type": "object", "properties": {"name": {"type": "string"}, "next": {"$ref": "#/$defs/Node"}}},
        "Loop": {"$ref": "#/$defs/Loop"}},
        "properties": {"node": {"$ref": "#/$defs/Node"}, "loop": {"$ref": "#/$defs/Loop"},
            "self": {"$ref": "#"}, "away": {"$ref": "https://evil.example/schema"}, "none": {"$ref": "#/nowhere"}}});
    let found = names(&schema);
    assert!(
        found.contains(&"arg.node.next.next".to_owned()),
        "{found:?}"
    );
    assert!(found.contains(&"arg.loop".to_owned()), "{found:?}");
    assert!(found.len() < 40, "{found:?}");
}

#[test]
fn too_many_properties_are_one_field_of_json() {
    let properties: serde_json::Map<_, _> = (0..10_000)
        .map(|at| (format!("p{at}"), json!({"type": "string"})))
        .collect();
    let wide = json!({"type": "object", "properties": properties});
    let within = json!({"type": "object", "properties": {"inner": wide}});
    for schema in [&wide, &within] {
        assert!(SchemaForm::new(schema).is_json());
        assert_eq!(names(schema), [JSON_FIELD]);
    }
    let arguments = read(&wide, &[(JSON_FIELD, "{\"p1\": \"x\"}")]);
    assert_eq!(arguments, Ok(json!({"p1": "x"})));
    for (text, problem) in [
        ("[1]", FieldProblem::NotObject),
        ("{", FieldProblem::NotJson),
    ] {
        let problems = read(&wide, &[(JSON_FIELD, text)]).unwrap_err();
        assert_eq!(problems, [(JSON_FIELD.to_owned(), problem)]);
    }
}

#[test]
fn schemas_that_choose_between_shapes_are_json() {
    let one_of =
        json!({"oneOf": [{"type": "object", "properties": {"a": {}}}, {"type": "object"}]});
    assert!(SchemaForm::new(&one_of).is_json());
    let member = json!({"type": "object", "properties": {"x": {"oneOf": [{"type": "string"}, {"type": "object"}]}}});
    assert!(matches!(shown(&member)[0].control, FieldControl::Json));
    for odd in [
        json!(true),
        json!(null),
        json!([1]),
        json!({"type": "array"}),
        json!({"type": "object", "properties": 5}),
    ] {
        let form = SchemaForm::new(&odd);
        let _ = show_items(&form, None, &BTreeMap::new());
    }
    assert_eq!(names(&json!({"type": "object"})), [] as [&str; 0]);
}
