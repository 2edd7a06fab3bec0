//! Results too large for a conversation.

use std::fs;

use hermes_agent::{tools, tools::tool::Concurrency, turn::TurnEnd};
use serde_json::{Value, json};

use super::{ScriptedModel, Step, TurnFixture, call, echo};

async fn results_of(setup: &mut TurnFixture, lengths: &[usize]) -> Vec<String> {
    let calls = lengths
        .iter()
        .enumerate()
        .map(|(n, length)| call(&format!("call_{n}"), "echo", &json!({"length": length})))
        .collect();
    let model = ScriptedModel::new([Step::Call(calls), Step::Say("done")]);
    assert_eq!(setup.run(&model).await, Ok(TurnEnd::Answered));
    setup.surface.results()
}

fn is_in_file(text: &str) -> bool {
    text.starts_with("<persisted-output")
}

#[tokio::test]
async fn a_large_result_goes_to_a_file_named_by_its_call() {
    let mut setup = TurnFixture::new(vec![echo(Concurrency::Parallel)]);
    let results = results_of(&mut setup, &[10, 1_000_000]).await;
    assert_eq!(results[0], "x".repeat(10));
    let path = setup.session.root.join("home/results/call_1.txt");
    assert_eq!(fs::metadata(&path).unwrap().len(), 1_000_000);
    let shown = &results[1];
    assert!(is_in_file(shown), "{shown}");
    assert!(
        shown.contains(&format!("path=\"{}\"", path.display())),
        "{shown}"
    );
    assert!(shown.contains("characters=\"1000000\""), "{shown}");
    assert_eq!(shown.matches(&"x".repeat(1_500)).count(), 1);
    assert!(!shown.contains(&"x".repeat(1_501)));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }
}

#[tokio::test]
async fn an_id_used_twice_does_not_overwrite_the_first_file() {
    let mut setup = TurnFixture::new(vec![echo(Concurrency::Parallel)]);
    results_of(&mut setup, &[100_001]).await;
    results_of(&mut setup, &[100_002]).await;
    let size = |name: &str| {
        fs::metadata(setup.session.root.join("home/results").join(name))
            .unwrap()
            .len()
    };
    assert_eq!(size("call_0.txt"), 100_001);
    assert_eq!(size("call_0-2.txt"), 100_002);
}

#[tokio::test]
async fn of_several_the_largest_go_first() {
    let mut setup = TurnFixture::new(vec![echo(Concurrency::Parallel)]);
    let results = results_of(&mut setup, &[60_000, 90_000, 70_000, 2_000]).await;
    let in_file: Vec<bool> = results.iter().map(|text| is_in_file(text)).collect();
    assert_eq!(in_file, [false, true, false, false]);
}

#[tokio::test]
async fn calls_that_run_one_by_one_share_the_same_room() {
    let mut setup = TurnFixture::new(vec![echo(Concurrency::Exclusive)]);
    let results = results_of(&mut setup, &[80_000, 80_000, 80_000, 10]).await;
    let in_file: Vec<bool> = results.iter().map(|text| is_in_file(text)).collect();
    assert_eq!(in_file, [false, false, true, false]);
}

#[tokio::test]
async fn what_read_file_returns_is_never_put_into_a_file() {
    let mut setup = TurnFixture::new(tools::built_in_tools(tools::ToolDeps::default()));
    setup.limits.sizes.per_result = 1_000;
    setup.limits.sizes.per_message = 2_000;
    setup
        .session
        .write("large.txt", "a line of text\n".repeat(400));
    let calls = vec![call("c1", "read_file", &json!({"path": "large.txt"}))];
    let model = ScriptedModel::new([Step::Call(calls), Step::Say("done")]);
    setup.run(&model).await.unwrap();
    let results = setup.surface.results();
    assert!(!is_in_file(&results[0]) && results[0].len() > 5_000);
}

#[tokio::test]
async fn the_file_of_a_result_in_json_has_lines() {
    let mut setup = TurnFixture::new(vec![echo(Concurrency::Parallel)]);
    setup.limits.sizes.per_result = 1_000;
    let text = json!({"result": "first\n".repeat(500)}).to_string();
    let calls = vec![call("c1", "echo", &json!({"text": Value::String(text)}))];
    let model = ScriptedModel::new([Step::Call(calls), Step::Say("done")]);
    setup.run(&model).await.unwrap();
    let file = fs::read_to_string(setup.session.root.join("home/results/c1.txt")).unwrap();
    assert_eq!(file.lines().count(), 500);
}
