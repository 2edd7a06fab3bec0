//! Commands within a conversation.

use hermes_testkit::{
    Behaviour, ExitAtStart, Tool,
    model::{ModelScript, ScriptedAnswer},
    wait_until,
};
use serde_json::json;

use crate::harness::{chat_terminal::ChatHome, test_home::TIMEOUT};

fn one_tool(name: &str) -> Behaviour {
    let tool = Tool::defined(json!({
        "name": name,
        "description": "Does one thing. And more.",
        "inputSchema": {"type": "object"},
    }));
    Behaviour {
        tools: Some(vec![tool]),
        resources: false,
        prompts: false,
        ..Behaviour::new()
    }
}

#[test]
fn without_a_model_tools_can_be_listed_and_called() {
    let place = ChatHome::without_model(&[("kit", &Behaviour::new())]);
    let talk = place.start_chat(&[]);
    talk.wait_for("There is no model yet");
    talk.wait_until_ready("kit");
    talk.line("/call kit.add {\"a\": 20, \"b\": 22}");
    talk.wait_for("42");
    talk.line("/call mcp_kit_echo text=\"two words\"");
    talk.wait_for("two words");
    talk.line("/call kit.nothing");
    talk.wait_for("error: server `kit` offers no tool `nothing`");
    talk.line("what now?");
    talk.wait_for("No model is chosen.");
    talk.prompt();
}

#[test]
fn a_call_of_a_server_that_is_not_ready_names_its_state() {
    let broken = Behaviour::new().process(|process| {
        process.exit_at_start = Some(ExitAtStart::default());
    });
    let place = ChatHome::without_model(&[("broken", &broken)]);
    let talk = place.start_chat(&[]);
    talk.wait_for("There is no model yet");
    talk.line("/call broken.echo text=a");
    talk.wait_for("error: server `broken` is reconnecting");
    talk.wait_for("`/mcp` shows the state of the servers");
    talk.prompt();
}

#[test]
fn a_call_by_the_registered_name_waits_for_the_server_that_connects() {
    let late = Behaviour::new().process(|process| process.start_delay_ms = 5_000);
    let place = ChatHome::without_model(&[("late-kit", &late)]);
    let talk = place.start_chat(&[]);
    talk.wait_for("There is no model yet");
    // Its tools are not known yet, in neither spelling of their names.
    talk.line("/call mcp_late_kit_echo text=hello");
    talk.wait_until("answer", |screen| screen.matches("hello").count() == 2);
    talk.line("/call mcp__late_kit__add {\"a\": 20, \"b\": 22}");
    talk.wait_for("42");
    talk.line("/call mcp_late_kit_nothing");
    talk.wait_for("error: there is no tool `mcp_late_kit_nothing`");
    talk.prompt();
}

#[test]
fn a_call_by_the_registered_name_names_the_state_of_a_server_that_is_not_ready() {
    let broken = Behaviour::new().process(|process| {
        process.exit_at_start = Some(ExitAtStart::default());
    });
    let place = ChatHome::without_model(&[("broken", &broken)]);
    let talk = place.start_chat(&[]);
    talk.wait_for("There is no model yet");
    talk.line("/call mcp_broken_echo text=a");
    talk.wait_for("error: server `broken` is reconnecting");
    talk.prompt();
}

#[test]
fn tools_are_listed_by_toolset_and_can_be_switched() {
    let place = ChatHome::without_model(&[("kit", &one_tool("one"))]);
    let talk = place.start_chat(&[]);
    talk.wait_until_ready("kit");
    talk.line("/tools");
    let screen = talk.wait_for("mcp_kit_one");
    let list = screen.split("> /tools\n").nth(1).unwrap();
    let section = |name: &str| {
        let mut lines = list.lines().skip_while(|line| !line.starts_with(name));
        let head = lines.next().unwrap_or_default();
        let tools = lines.take_while(|line| line.starts_with(' '));
        std::iter::once(head)
            .chain(tools)
            .collect::<Vec<_>>()
            .join("\n")
    };
    insta::assert_snapshot!([section("terminal"), section("mcp-kit")].join("\n"), @r"
    terminal (built in, 2 tools)
      terminal                     Runs a shell command and returns its output and exit code.
      process                      Follows and controls the commands that terminal started in the background.
    mcp-kit (MCP server, ready, 1 tool)
      mcp_kit_one                  Does one thing.
    ");
    talk.line("/tools disable kit");
    talk.wait_for("`kit` is off");
    talk.line("/clear");
    talk.line("/tools");
    talk.wait_for("kit (MCP server, ready, 1 tool, off)");
}

#[test]
fn help_and_hints_are_there() {
    let place = ChatHome::without_model(&[]);
    let talk = place.start_chat(&[]);
    talk.line("/help");
    talk.wait_for("/reload-mcp");
    talk.line("/hlep");
    talk.wait_for("hint: did you mean `/help`?");
}

#[test]
fn a_reload_is_asked_about_where_stderr_goes_elsewhere() {
    let (a, b) = (one_tool("one"), one_tool("two"));
    let more = "mcp: {auto_reload_on_config_change: false}\n";
    let place = ChatHome::new(None, &[("a", &a)], more);
    let talk = place.start_chat_without_stderr();
    place.write_config(&[("a", &a), ("b", &b)], more);
    talk.line("/reload-mcp");
    talk.wait_for("Reload? [o]nce, [a]lways without asking, [c]ancel");
    talk.keys("o\r");
    let screen = talk.wait_for("now         2 ready (2 tools)");
    assert!(screen.contains("added       b\nunchanged   a"), "{screen}");
}

#[test]
fn a_reload_is_confirmed_and_tells_what_it_did() {
    let (a, b) = (one_tool("one"), one_tool("two"));
    let script = ModelScript::new([ScriptedAnswer::text("I see.")]);
    let place = ChatHome::new(
        Some(script),
        &[("a", &a)],
        "mcp: {auto_reload_on_config_change: false}\n",
    );
    let talk = place.start_chat(&[]);
    talk.wait_until_ready("a");
    talk.line("/reload-mcp");
    // Nothing changes, so nothing is asked.
    talk.wait_for("unchanged   a");
    let more = "mcp: {auto_reload_on_config_change: false}\n# a comment\n";
    place.write_config(&[("a", &a), ("b", &b)], more);
    talk.wait_for("`/reload-mcp` applies it");
    talk.line("/reload-mcp");
    talk.wait_for("Reload? [o]nce, [a]lways without asking, [c]ancel");
    talk.keys("c\r");
    talk.wait_for("Nothing was reloaded.");
    talk.line("/reload_mcp");
    talk.wait_until("second question", |screen| {
        screen.matches("Reload?").count() == 2
    });
    talk.keys("a\r");
    let screen = talk.wait_for("now         2 ready (2 tools)");
    assert!(screen.contains("added       b\nunchanged   a"), "{screen}");
    let config = std::fs::read_to_string(place.home.path().join("config.yaml")).unwrap();
    assert!(
        config.contains("mcp_reload_confirm: false") && config.contains("# a comment"),
        "{config}"
    );
    talk.line("what can you do?");
    talk.wait_for("I see.");
    let requests = place.model.as_ref().unwrap().requests();
    let body = requests[0].body.to_string();
    assert!(
        body.contains("The MCP servers were reloaded") && body.contains("mcp_b_two"),
        "{body}"
    );
}

#[test]
fn an_edit_while_the_chat_starts_is_not_missed() {
    let (a, b) = (one_tool("one"), one_tool("two"));
    let place = ChatHome::without_model(&[("a", &a)]);
    let talk = place.start_chat_with(&[], &[]);
    // The store is opened after the configuration was read.
    let store = place.home.path().join("state.db");
    assert!(wait_until(TIMEOUT, || store.exists()));
    place.write_config(&[("a", &a), ("b", &b)], "");
    talk.wait_for("The configuration has changed.");
    talk.wait_for("added       b");
}

#[test]
fn a_change_of_the_file_is_applied_by_itself() {
    let (a, b) = (one_tool("one"), one_tool("two"));
    let place = ChatHome::without_model(&[("a", &a)]);
    let talk = place.start_chat(&[]);
    talk.wait_until_ready("a");
    place.write_config(&[("b", &b)], "");
    talk.wait_for("removed     a");
    talk.line("/mcp");
    talk.wait_for("SERVER");
    let screen = talk.prompt();
    assert!(screen.contains("b       stdio"), "{screen}");
}

#[test]
fn turns_are_taken_back_and_tried_again() {
    let script = ModelScript::new([ScriptedAnswer::text("One."), ScriptedAnswer::text("Two.")]);
    let place = ChatHome::with_model(script, &[]);
    let talk = place.start_chat(&[]);
    talk.line("say something");
    talk.wait_for("One.");
    talk.line("/retry");
    talk.wait_for("Two.");
    talk.line("/history");
    talk.prompt();
    talk.line("/undo");
    talk.wait_for("Undid 1 turn, from \"say something\" on.");
    talk.line("/history");
    talk.wait_for("There are no messages yet.");
}

#[test]
fn sessions_are_named_listed_and_resumed() {
    let place = ChatHome::with_model(ModelScript::echo(), &[]);
    let talk = place.start_chat(&[]);
    talk.line("about apples");
    talk.wait_until("answer", |screen| {
        screen.matches("about apples").count() == 2
    });
    talk.line("/title Apples");
    talk.wait_for("The title is \"Apples\".");
    talk.line("/new Pears");
    talk.wait_for("A new session: ");
    talk.line("/sessions");
    let screen = talk.wait_for("`/resume SESSION` resumes one");
    assert!(
        screen.contains("Apples") && screen.contains("Pears"),
        "{screen}"
    );
    talk.line("/resume Apples");
    talk.wait_for("\"Apples\", 2 messages.");
    talk.line("/status");
    let screen = talk.wait_for("directory");
    assert!(screen.contains("test-model"), "{screen}");
    // What holds commands, in plain words.
    let screen = talk.wait_for("servers");
    assert!(screen.contains("heuristic"), "{screen}");
}

#[test]
fn a_skill_is_a_command() {
    let place = ChatHome::with_model(ModelScript::new([ScriptedAnswer::text("Reviewed.")]), &[]);
    place.home.write(
        "skills/review/SKILL.md",
        "---\nname: review\ndescription: Reads code.\n---\nLook twice.\n",
    );
    let talk = place.start_chat(&[]);
    talk.line("/skills");
    talk.wait_for("Reads code.");
    talk.line("/review main.rs");
    talk.wait_for("Reviewed.");
    let body = place.model.as_ref().unwrap().requests()[0].body.to_string();
    assert!(
        body.contains("Look twice.") && body.contains("main.rs"),
        "{body}"
    );
}

#[test]
fn work_in_the_background_is_told_when_it_is_done() {
    let script = ModelScript::echo().rule(
        "in the background",
        ScriptedAnswer::text("Background answer."),
    );
    let place = ChatHome::with_model(script, &[]);
    let talk = place.start_chat(&[]);
    talk.line("/background do it in the background");
    talk.wait_for("Working on it in session");
    talk.wait_for("is done (");
    talk.wait_for("Background answer.");
    talk.line("/stop");
    talk.wait_for("Nothing runs in the background.");
    talk.line("/quit");
    talk.end();
    // It is there by its id, but is not what the person goes on with.
    let talk = place.start_chat_with(&["--continue"], &[]);
    assert_eq!(talk.end().0, Some(1));
}

#[test]
fn a_prompt_of_a_server_is_a_command_that_asks_for_what_is_missing() {
    let script = ModelScript::new([
        ScriptedAnswer::text("Good day, Ada."),
        ScriptedAnswer::text("Hi, Bob."),
    ]);
    let place = ChatHome::with_model(script, &[("kit", &Behaviour::new())]);
    let talk = place.start_chat(&[]);
    talk.wait_until_ready("kit");
    talk.line("/mcp_kit_greet");
    talk.wait_for("name (Who is greeted.):");
    talk.keys("Ada\r");
    talk.wait_for("Good day, Ada.");
    talk.line("/mcp__kit__greet name=Bob style=\"very warmly\"");
    talk.wait_for("Hi, Bob.");
    let requests = place.model.as_ref().unwrap().requests();
    assert!(requests[0].body.to_string().contains("Greet Ada kindly."));
    assert!(
        requests[1]
            .body
            .to_string()
            .contains("Greet Bob very warmly.")
    );
}

#[test]
fn a_resource_that_is_mentioned_goes_with_the_message() {
    let script = ModelScript::new([ScriptedAnswer::text("Read.")]);
    let place = ChatHome::with_model(script, &[("kit", &Behaviour::new())]);
    let talk = place.start_chat(&[]);
    talk.wait_until_ready("kit");
    talk.line("look at @kit:test://note/one and @other:test://x");
    let screen = talk.wait_for("Read.");
    assert!(
        screen.contains("there is no MCP server `other`"),
        "{screen}"
    );
    let body = place.model.as_ref().unwrap().requests()[0].body.to_string();
    assert!(
        body.contains("untrusted_tool_result") && body.contains("kit:test://note/one"),
        "{body}"
    );
}

#[test]
fn the_conversation_is_written_to_a_file_and_copied_to_the_clipboard() {
    let place = ChatHome::with_model(ModelScript::new([ScriptedAnswer::text("An answer.")]), &[]);
    let talk = place.start_chat(&[]);
    talk.line("a question");
    talk.wait_for("An answer.");
    talk.line("/save talk.md");
    talk.wait_for("Written to ");
    let saved = std::fs::read_to_string(place.home.path().join("talk.md")).unwrap();
    assert!(saved.contains("## You\n\na question"), "{saved}");
    talk.line("/copy");
    talk.wait_for("in the clipboard");
    assert!(talk.raw().contains("\x1b]52;c;QW4gYW5zd2VyLg=="));
    talk.line("/usage");
    talk.wait_for("in all: 1 call");
    talk.line("/compress");
    talk.wait_for("nothing to summarize");
}

#[test]
fn the_model_is_changed_for_the_session_or_for_good() {
    let place = ChatHome::with_model(ModelScript::echo(), &[]);
    let talk = place.start_chat(&[]);
    talk.line("/model");
    talk.wait_for("test-model (custom)");
    talk.line("/model other-model");
    talk.wait_for("From now on: other-model");
    talk.line("hello");
    talk.wait_until("echo", |screen| screen.matches("hello").count() == 2);
    let requests = place.model.as_ref().unwrap().requests();
    assert_eq!(requests[0].body["model"], "other-model");
    talk.line("/model third-model --global");
    talk.wait_for("in new sessions too");
    let config = std::fs::read_to_string(place.home.path().join("config.yaml")).unwrap();
    assert!(config.contains("default: third-model"), "{config}");
}

#[test]
fn verbose_shows_what_tools_return_until_it_is_said_again() {
    let call = || ScriptedAnswer::call("terminal", &json!({"command": "true"}));
    let script = ModelScript::new([
        call(),
        ScriptedAnswer::text("First."),
        call(),
        ScriptedAnswer::text("Second."),
        call(),
        ScriptedAnswer::text("Third."),
    ]);
    let shown = |screen: &str| screen.matches("\"exit_code\": 0").count();
    let place = ChatHome::with_model(script, &[]);
    let talk = place.start_chat(&[]);
    talk.line("one");
    assert_eq!(shown(&talk.wait_for("First.")), 0);
    talk.line("/verbose");
    talk.wait_for("are shown from now on");
    talk.line("two");
    assert_eq!(shown(&talk.wait_for("Second.")), 1);
    talk.line("/verbose");
    talk.wait_for("one line from now on");
    talk.line("three");
    assert_eq!(shown(&talk.wait_for("Third.")), 1);
}
