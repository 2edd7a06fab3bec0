use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// What becomes of a property's schema.
fn property(schema: &Value) -> Value {
    let whole = normalise(&json!({"type": "object", "properties": {"x": schema}}));
    whole["properties"]["x"].clone()
}

#[test]
fn nothing_becomes_an_object_without_properties() {
    for nothing in [json!({}), json!(null), json!(true), json!([]), json!("x")] {
        assert_eq!(
            normalise(&nothing),
            json!({"type": "object", "properties": {}})
        );
    }
}

#[test]
fn a_plain_schema_stays_as_it_is() {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "title": "Search",
        "properties": {
            "query": {"type": "string", "minLength": 1, "default": "", "examples": ["x"]},
            "limit": {"type": "integer", "enum": [10, 20]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "mode": {"anyOf": [{"const": "a"}, {"const": "b"}, {"type": "null"}]},
            "more": true,
        },
        "required": ["query"],
        "additionalProperties": false,
        "x-vendor": {"anyOf": "kept"},
    });
    assert_eq!(normalise(&schema), schema);
}

#[test]
fn the_top_is_an_object_whatever_it_said() {
    let schema = json!({"type": ["object", "null"], "not": {}, "enum": [{}], "nullable": true});
    assert_eq!(
        normalise(&schema),
        json!({"type": "object", "properties": {}})
    );
}

#[test]
fn parts_at_the_top_become_one_object() {
    let schema = json!({
        "description": "kept",
        "allOf": [
            {"$ref": "#/definitions/Base"},
            {"properties": {"b": {"type": "integer"}}, "required": ["b"]},
        ],
        "required": ["a", "zzz"],
        "definitions": {"Base": {"type": "object", "properties": {"a": {"type": "string"}}}},
    });
    let normal = normalise(&schema);
    assert_eq!(normal.get("allOf"), None);
    assert_eq!(normal["description"], "kept");
    assert_eq!(
        normal["properties"],
        json!({"a": {"type": "string"}, "b": {"type": "integer"}})
    );
    assert_eq!(normal["required"], json!(["a", "b"]));
}

#[test]
fn alternatives_at_the_top_offer_the_properties_of_all() {
    let schema = json!({"oneOf": [
        {"properties": {"kind": {"const": "a"}, "x": {"type": "string"}}, "required": ["kind", "x"]},
        {"properties": {"kind": {"const": "b"}, "y": {"type": "string"}}, "required": ["kind"]},
    ]});
    assert_eq!(
        normalise(&schema),
        json!({
            "type": "object",
            "properties": {
                "kind": {"anyOf": [{"const": "a"}, {"const": "b"}]},
                "x": {"type": "string"},
                "y": {"type": "string"},
            },
            "required": ["kind"],
        })
    );
}

#[test]
fn a_reference_at_the_top_is_resolved() {
    let schema = json!({
        "$ref": "#/$defs/Input",
        "$defs": {"Input": {"properties": {"a": {"type": "string"}}, "required": ["a"]}},
    });
    let normal = normalise(&schema);
    assert_eq!(normal.get("$ref"), None);
    assert_eq!(normal["properties"], json!({"a": {"type": "string"}}));
    assert_eq!(normal["required"], json!(["a"]));
}

#[test]
fn references_in_circles_end() {
    let schema = json!({
        "$ref": "#",
        "anyOf": [{"$ref": "#"}, {"$ref": "#/anyOf/1"}],
        "properties": {"child": {"$ref": "#"}},
    });
    assert_eq!(
        normalise(&schema),
        json!({"type": "object", "properties": {"child": {"$ref": "#"}}})
    );
}

#[test]
fn definitions_are_renamed_and_references_follow() {
    let schema = json!({
        "type": "object",
        "properties": {"a": {"$ref": "#/definitions/A"}, "p": {"$ref": "#/definitions/Page%3CA%3E"}},
        "definitions": {
            "A": {"type": "array", "items": {"$ref": "#/definitions/A"}},
            "Page<A>": {"type": "object", "properties": {"definitions": {"type": "string"}}},
        },
    });
    assert_eq!(
        normalise(&schema),
        json!({
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/A"}, "p": {"$ref": "#/$defs/Page%3CA%3E"}},
            "$defs": {
                "A": {"type": "array", "items": {"$ref": "#/$defs/A"}},
                "Page<A>": {"type": "object", "properties": {"definitions": {"type": "string"}}},
            },
        })
    );
}

#[test]
fn a_property_called_definitions_keeps_its_name() {
    let schema = json!({
        "type": "object",
        "properties": {
            "definitions": {"type": "object", "properties": {"$ref": {"type": "string"}}},
            "same": {"$ref": "#/properties/definitions"},
        },
        "required": ["definitions"],
    });
    assert_eq!(normalise(&schema), schema);
}

#[test]
fn definitions_beside_defs_of_the_same_name_stay_apart() {
    let schema = json!({
        "type": "object",
        "properties": {"old": {"$ref": "#/definitions/A"}, "new": {"$ref": "#/$defs/A"}},
        "definitions": {"A": {"type": "string"}},
        "$defs": {"A": {"type": "integer"}},
    });
    let normal = normalise(&schema);
    assert_eq!(normal["properties"]["old"], json!({"$ref": "#/$defs/A_2"}));
    assert_eq!(normal["properties"]["new"], json!({"$ref": "#/$defs/A"}));
    assert_eq!(
        normal["$defs"],
        json!({"A": {"type": "integer"}, "A_2": {"type": "string"}})
    );
}

#[test]
fn a_reference_into_a_collapsed_union_still_finds_its_target() {
    let schema = json!({
        "type": "object",
        "properties": {
            "a": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "b": {"$ref": "#/properties/a/anyOf/0"},
        },
    });
    let normal = normalise(&schema);
    let target = normal["properties"]["b"]["$ref"].as_str().unwrap();
    assert_eq!(
        reference::resolve(target, &normal),
        Some(&json!({"type": "string"}))
    );
}

#[test]
fn remote_and_dangling_references_stay_as_they_are() {
    let schema = json!({
        "type": "object",
        "properties": {
            "remote": {"$ref": "https://example.com/schema.json#/definitions/A"},
            "dangling": {"$ref": "#/definitions/Missing"},
        },
    });
    assert_eq!(normalise(&schema), schema);
}

#[test]
fn a_union_with_null_becomes_its_other_branch() {
    for union in ["anyOf", "oneOf"] {
        let schema = json!({
            "title": "Limit",
            "description": "outer",
            "default": null,
            "examples": [1],
            union: [{"type": "integer", "minimum": 1, "description": "inner"}, {"type": "null"}],
        });
        assert_eq!(
            property(&schema),
            json!({
                "title": "Limit",
                "description": "outer",
                "default": null,
                "examples": [1],
                "type": "integer",
                "minimum": 1,
                "nullable": true,
            })
        );
    }
}

#[test]
fn a_union_of_one_is_that_one() {
    assert_eq!(
        property(&json!({"anyOf": [{"type": "integer"}]})),
        json!({"type": "integer"})
    );
    assert_eq!(
        property(&json!({"anyOf": [{"type": "null"}, {"const": null}]})),
        json!({"type": "null"})
    );
}

#[test]
fn a_branch_that_contradicts_its_surroundings_is_not_merged() {
    let schema = json!({"minimum": 1, "anyOf": [{"minimum": 5}, {"type": "null"}]});
    assert_eq!(
        property(&schema),
        json!({"minimum": 1, "anyOf": [{"minimum": 5}], "nullable": true})
    );
}

#[test]
fn no_default_stays_beside_a_reference() {
    let schema = json!({
        "type": "object",
        "properties": {
            "a": {"$ref": "#/$defs/A", "default": 1},
            "b": {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}], "default": null},
        },
        "$defs": {"A": {"type": "integer"}},
    });
    assert_eq!(
        normalise(&schema)["properties"],
        json!({
            "a": {"$ref": "#/$defs/A"},
            "b": {"$ref": "#/$defs/A", "nullable": true},
        })
    );
}

#[test]
fn lists_of_types_become_one_type_or_a_union() {
    for (types, expected) in [
        (
            json!(["string", "null"]),
            json!({"type": "string", "nullable": true}),
        ),
        (json!(["string"]), json!({"type": "string"})),
        (json!(["null"]), json!({"type": "null"})),
        (json!([]), json!({})),
        (
            json!(["string", "integer", "string"]),
            json!({"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        ),
        (
            json!(["string", "integer", "null"]),
            json!({"nullable": true, "anyOf": [{"type": "string"}, {"type": "integer"}]}),
        ),
    ] {
        assert_eq!(property(&json!({"type": types})), expected);
    }
}

#[test]
fn keywords_go_with_the_type_they_belong_to() {
    let schema = json!({
        "description": "kept",
        "type": ["array", "object", "string"],
        "items": {"type": "string"},
        "properties": {"a": {}},
        "required": ["a", "b"],
    });
    assert_eq!(
        property(&schema),
        json!({
            "description": "kept",
            "anyOf": [
                {"type": "array", "items": {"type": "string"}},
                {"type": "object", "properties": {"a": {}}, "required": ["a"]},
                {"type": "string"},
            ],
        })
    );
}

#[test]
fn bare_words_become_types() {
    assert_eq!(property(&json!("string")), json!({"type": "string"}));
    assert_eq!(
        property(&json!("The name")),
        json!({"description": "The name"})
    );
    assert_eq!(
        property(&json!({"type": "array", "items": "integer"})),
        json!({"type": "array", "items": {"type": "integer"}})
    );
    assert_eq!(
        property(&json!({"anyOf": ["string", "null"]})),
        json!({"type": "string", "nullable": true})
    );
}

#[test]
fn what_has_properties_is_an_object_and_requires_only_those() {
    assert_eq!(
        property(&json!({"properties": {"a": {}}, "required": ["a", "b", 3, "a"]})),
        json!({"properties": {"a": {}}, "type": "object", "required": ["a"]})
    );
    assert_eq!(
        property(&json!({"required": ["a"]})),
        json!({"type": "object"})
    );
    assert_eq!(
        property(&json!({"type": "string", "required": true})),
        json!({"type": "string"})
    );
    assert_eq!(
        property(&json!({"properties": []})),
        json!({"properties": {}, "type": "object"})
    );
}

#[test]
fn data_is_left_alone() {
    let schema = json!({
        "type": "object",
        "default": {"type": ["a", "null"], "definitions": {}, "$ref": "#/definitions/x"},
        "enum": [{"anyOf": [{"type": "null"}]}],
        "const": {"required": ["zzz"]},
    });
    assert_eq!(property(&schema), schema);
}

#[test]
fn very_deep_schemas_are_cut() {
    let mut schema = json!({"type": "string"});
    for _ in 0..500 {
        schema = Map::from_iter([("items".to_string(), schema)]).into();
    }
    let normal = normalise(&json!({"properties": {"x": schema}}));
    let mut depth = 0;
    let mut node = &normal["properties"]["x"];
    while let Some(items) = node.get("items") {
        node = items;
        depth += 1;
    }
    assert!((10..100).contains(&depth), "{depth}");
    assert_eq!(node, &json!({}));
}

/// JSON in which schema keywords are common, in the right places and in wrong ones.
fn any_schema() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        Just("string"),
        Just("object"),
        Just("null"),
        Just("a"),
        Just("definitions"),
        Just("#"),
        Just("#/definitions/a"),
        Just("#/$defs/a"),
        Just("#/anyOf/0"),
        Just("x:y"),
    ];
    let keyword = prop_oneof![
        Just("type"),
        Just("properties"),
        Just("required"),
        Just("anyOf"),
        Just("oneOf"),
        Just("allOf"),
        Just("items"),
        Just("definitions"),
        Just("$defs"),
        Just("$ref"),
        Just("enum"),
        Just("not"),
        Just("default"),
        Just("nullable"),
        Just("title"),
        Just("a"),
    ];
    let leaf = prop_oneof![
        4 => word.prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
        1 => any::<i8>().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 48, 4, move |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            3 => prop::collection::vec((keyword.clone(), inner), 0..5).prop_map(|members| {
                members.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn anything_becomes_an_object_schema(schema in any_schema()) {
        let normal = normalise(&schema);
        prop_assert_eq!(&normal["type"], "object");
        prop_assert!(normal["properties"].is_object());
        for unwanted in ["allOf", "anyOf", "oneOf", "enum", "not", "definitions"] {
            prop_assert!(normal.get(unwanted).is_none(), "{} in {}", unwanted, normal);
        }
    }

    #[test]
    fn checking_anything_never_panics(schema in any_schema(), content in any_schema()) {
        let _ = check(&schema);
        let _ = OutputValidator::new(schema).validate(&content);
    }
}
