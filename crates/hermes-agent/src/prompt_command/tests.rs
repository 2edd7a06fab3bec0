use serde_json::{Value, json};

use super::*;

fn prompt(name: &str, arguments: &[(&str, bool)]) -> Prompt {
    let arguments = arguments
        .iter()
        .map(|(name, required)| PromptArgument::new(*name).with_required(*required))
        .collect();
    Prompt::new(name, None::<String>, Some(arguments))
}

fn commands(naming: Naming, prompts: &[(&str, &str)]) -> Vec<PromptCommand> {
    let prompts = prompts
        .iter()
        .map(|(server, name)| (ServerName::new(*server), prompt(name, &[])))
        .collect();
    PromptCommand::assign_names(naming, prompts)
}

fn names(commands: &[PromptCommand]) -> Vec<&str> {
    commands
        .iter()
        .map(|command| command.name.as_str())
        .collect()
}

#[test]
fn a_prompt_is_found_in_both_spellings() {
    for naming in [Naming::Single, Naming::Double] {
        let commands = commands(naming, &[("my-api", "code-review")]);
        for typed in ["mcp_my_api_code_review", "mcp__my_api__code_review"] {
            let found = PromptCommand::find_among(commands.clone(), typed).unwrap();
            assert_eq!(found.prompt.name, "code-review");
        }
        assert!(PromptCommand::find_among(commands, "mcp_my_api").is_none());
    }
}

#[test]
fn names_that_would_be_the_same_are_numbered() {
    let commands = commands(Naming::Single, &[("a", "x-y"), ("a", "x.y"), ("a_x", "y")]);
    assert_eq!(
        names(&commands),
        ["mcp_a_x_y", "mcp_a_x_y_2", "mcp_a_x_y_3"]
    );
}

#[test]
fn the_usage_shows_what_is_required() {
    let command = PromptCommand::assign_names(
        Naming::Single,
        vec![(
            ServerName::new("s"),
            prompt("greet", &[("name", true), ("style", false)]),
        )],
    );
    assert_eq!(command[0].usage(), "/mcp_s_greet name=… [style=…]");
}

fn read(text: &str) -> Result<(Value, Vec<String>), String> {
    let prompt = prompt("greet", &[("name", true), ("style", false), ("tone", true)]);
    let arguments = arguments::parse_arguments(text, prompt.arguments.as_deref().unwrap());
    let arguments = arguments.map_err(|error| error.to_string())?;
    let missing = arguments.missing.into_iter().map(|argument| argument.name);
    Ok((Value::Object(arguments.given), missing.collect()))
}

#[test]
fn arguments_are_given_by_name_by_position_or_both() {
    let whole = json!({"name": "Ada", "style": "kindly", "tone": "low"});
    for text in [
        "Ada kindly low",
        "name=Ada style=kindly tone=low",
        "style=kindly Ada low",
        "  Ada\tkindly   low ",
    ] {
        let (mut given, missing) = read(text).unwrap();
        given.as_object_mut().unwrap().sort_keys();
        assert_eq!((given, missing), (whole.clone(), Vec::new()), "{text}");
    }
}

#[test]
fn quotes_hold_words_together() {
    let name = |text: &str| read(text).unwrap().0["name"].clone();
    assert_eq!(name("\"Ada Lovelace\""), "Ada Lovelace");
    assert_eq!(name("name='Ada Lovelace'"), "Ada Lovelace");
    assert_eq!(name("\"say \\\"hi\\\"\""), "say \"hi\"");
    assert_eq!(name("don't"), "don't");
    assert_eq!(name("''"), "");
    // Only names of arguments end at a `=`; a quoted word never does.
    assert_eq!(name("a=b"), "a=b");
    assert_eq!(name("\"name=Ada\""), "name=Ada");
    assert_eq!(read("\"Ada").unwrap_err(), "a quote is not closed");
}

#[test]
fn required_arguments_that_are_missing_are_named() {
    assert_eq!(
        read("").unwrap(),
        (json!({}), vec!["name".to_owned(), "tone".to_owned()])
    );
    assert_eq!(read("Ada").unwrap().1, ["tone"]);
    let mut arguments =
        arguments::parse_arguments("", &[PromptArgument::new("x").with_required(true)]).unwrap();
    arguments.add("x", "1");
    assert_eq!(
        (arguments.missing.len(), &arguments.given["x"]),
        (0, &json!("1"))
    );
}

#[test]
fn too_many_and_doubled_arguments_are_refused() {
    let error = read("a b c d").unwrap_err();
    assert!(
        error.starts_with("there is no argument left for `d`: the prompt takes name, style, tone"),
        "{error}"
    );
    assert_eq!(read("name=a name=b").unwrap_err(), "`name` is given twice");
}
