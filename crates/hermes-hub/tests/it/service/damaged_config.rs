//! Damaged or malicious configurations of tenants.

use std::fmt::Write;

use serde_json::json;

use crate::test_hub::TestHub;

/// Invalid configurations with the expected message.
fn damaged() -> Vec<(&'static str, String, &'static str)> {
    let mut laughs = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        writeln!(laughs, "a{level}: &a{level} [{aliases}]").unwrap();
    }
    let mut steps = String::new();
    for depth in 0..300 {
        writeln!(steps, "{}a:", " ".repeat(depth)).unwrap();
    }
    vec![
        ("no YAML", "skills:\n  disabled: [a\nb: 1\n".into(), "line "),
        ("a key twice", "a: 1\na: 2\n".into(), "line 2, column 1"),
        ("deep", format!("a: {}", "[".repeat(200)), "line 1"),
        ("deep steps", steps, "nested"),
        ("aliases", laughs, "aliases"),
        (
            "many values",
            format!("a: [{}]", "1,".repeat(3_000_000)),
            "it has more than 4 MiB",
        ),
        (
            "values",
            format!("a: [{}]", "1,".repeat(1_000_000)),
            "more than 50000 values",
        ),
        (
            "a long text",
            format!("a: \"{}\"", "x".repeat(10_000_000)),
            "it has more than 4 MiB",
        ),
        (
            "a longer text",
            format!("a: \"{}\"", "x".repeat(20_000_000)),
            "it has more than 4 MiB",
        ),
    ]
}

/// The most memory that this process, which has this test alone, has ever had, in MiB.
fn peak_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.unwrap().split_whitespace().next().unwrap();
    kib.parse::<u64>().unwrap() / 1024
}

#[tokio::test]
async fn a_damaged_configuration_is_told_by_line_and_column_and_breaks_nothing() {
    let site = TestHub::new().await.with_examples().await;
    let own = "/v1/tenants/tenant_123";
    let file = site.home("tenant_123").join("config.yaml");
    let damaged = damaged();
    let peak_before = peak_memory();
    for (what, text, told) in damaged {
        std::fs::write(&file, &text).unwrap();
        let state = format!("{own}/skills/writer/state");
        let refused = site.put(&state, &json!({"enabled": false})).await;
        assert_eq!(refused.status, 409, "{what}: {}", refused.text);
        let problem = refused.json();
        assert_eq!(problem["reason"], "config_damaged", "{what}");
        let message = problem["message"].as_str().unwrap();
        assert!(
            message.contains("`config.yaml`") && message.contains("fix the file"),
            "{what}: {message}"
        );
        let has_place = message.contains("line ") && message.contains("column ");
        assert!(has_place || told.contains("MiB"), "{what}: {message}");
        assert!(message.contains(told), "{what}: {message}");
        assert!(
            !message.contains(site.directory.path().to_str().unwrap()),
            "{message}"
        );
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text, "{what}");
        for path in ["", "/skills", "/agent", "/agent-cron", "/env", "/files"] {
            site.get(&format!("{own}{path}")).await.expect(200);
        }
        let run = json!({"input": "hi"});
        let run = site.post(&format!("{own}/runs"), &run).await;
        assert!(run.status < 500, "{what}: {}", run.text);
    }
    let taken = peak_memory() - peak_before;
    assert!(taken < 64, "{taken} MiB");
    std::fs::write(&file, "# mine\nskills: {}\n").unwrap();
    let state = format!("{own}/skills/writer/state");
    site.put(&state, &json!({"enabled": false}))
        .await
        .expect(200);
}

#[tokio::test]
async fn the_head_of_a_skill_does_not_take_all_memory_either() {
    let site = TestHub::new().await.with_examples().await;
    let (_, laughs, _) = damaged().swap_remove(4);
    let skill = site
        .home("tenant_123")
        .join("skills/content/writer/SKILL.md");
    std::fs::write(&skill, format!("---\nname: writer\n{laughs}---\nx\n")).unwrap();
    let listed = site.get("/v1/tenants/tenant_123/skills").await.expect(200);
    assert!(listed.to_string().contains("writer"), "{listed}");
}
