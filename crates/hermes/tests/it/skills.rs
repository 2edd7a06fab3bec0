//! `hermes skills …`.

use serde_json::json;

use crate::harness::program::Hermes;

fn filled() -> Hermes {
    let hermes = Hermes::new();
    hermes.home.write(
        "skills/writing/haiku/SKILL.md",
        "---\nname: haiku\ndescription: Writes haiku\n---\n# Haiku\n\nFive, seven, five.\x1b[2J\n",
    );
    hermes
        .home
        .write("skills/writing/haiku/references/old.md", "Bashō");
    hermes.home.write(
        "skills/plan/SKILL.md",
        "---\ndescription: Plans\n---\nPlan.\n",
    );
    hermes
        .home
        .write("skills/writing/DESCRIPTION.md", "All about\nwords.\n");
    hermes
}

#[test]
fn skills_are_listed() {
    let hermes = filled();
    insta::assert_snapshot!(hermes.run(&["skills", "list"]).ok().stdout, @r"
    NAME   CATEGORY  DESCRIPTION
    plan             Plans
    haiku  writing   Writes haiku

    CATEGORY  ABOUT
    writing   All about words.
    ");
    let json = hermes.run(&["skills", "list", "--json"]).ok().json();
    assert_eq!(json["skills"][1]["category"], "writing");
    assert_eq!(json["categories"]["writing"], "All about\nwords.");
    let none = Hermes::new().run(&["skills", "list", "--json"]).ok();
    assert_eq!(none.json()["skills"], json!([]));
}

#[test]
fn a_skill_and_its_files_are_shown() {
    let hermes = filled();
    let ran = hermes.run(&["skills", "view", "haiku"]).ok();
    assert_eq!(ran.stdout, "# Haiku\n\nFive, seven, five.\n");
    assert!(ran.stderr.contains("references/old.md"), "{ran:?}");
    let ran = hermes.run(&["skills", "view", "writing/haiku", "references/old.md"]);
    assert_eq!(ran.ok().stdout, "Bashō\n");
    let json = hermes
        .run(&["skills", "view", "haiku", "--json"])
        .ok()
        .json();
    assert_eq!(json["skill"]["files"], json!(["references/old.md"]));
    assert_eq!(json["skill"]["frontmatter"]["description"], "Writes haiku");
}

#[test]
fn a_skill_that_is_not_there_is_an_error() {
    let hermes = filled();
    hermes.home.write_config("skills: {disabled: [plan]}\n");
    hermes
        .run(&["skills", "view", "sonnet", "--json"])
        .refused(3, "not_found");
    hermes
        .run(&["skills", "view", "plan", "--json"])
        .refused(1, "failed");
    hermes
        .run(&["skills", "view", "haiku", "../../../config.yaml", "--json"])
        .refused(3, "not_found");
}
