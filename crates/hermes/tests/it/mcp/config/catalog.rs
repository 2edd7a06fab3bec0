use crate::harness::program::Hermes;

#[test]
fn presets_are_listed() {
    let hermes = Hermes::new();
    insta::assert_snapshot!(hermes.run(&["mcp", "presets"]).ok().stdout, @r"
    PRESET  RUNS              DESCRIPTION
    codex   codex mcp-server  OpenAI Codex as a tool: starts and continues coding sessions
    ");
    insta::assert_json_snapshot!(hermes.run(&["mcp", "presets", "--json"]).ok().json(), @r#"
    {
      "ok": true,
      "presets": [
        {
          "name": "codex",
          "description": "OpenAI Codex as a tool: starts and continues coding sessions",
          "command": "codex",
          "args": [
            "mcp-server"
          ]
        }
      ]
    }
    "#);
}

#[test]
fn the_catalog_can_be_searched() {
    let hermes = Hermes::new();
    insta::assert_snapshot!(hermes.run(&["mcp", "catalog", "GITHUB"]).ok().stdout, @r"
    ID        TRANSPORT  ASKS FOR                      DESCRIPTION
    github    http       GITHUB_PERSONAL_ACCESS_TOKEN  Repositories, issues, pull requests and workflows on GitHub (remote)
    deepwiki  http                                     Questions about public GitHub repositories (remote)
    ");
    let json = hermes
        .run(&["mcp", "catalog", "github", "--json"])
        .ok()
        .json();
    insta::assert_json_snapshot!(json["entries"][0], @r#"
    {
      "id": "github",
      "title": "GitHub",
      "description": "Repositories, issues, pull requests and workflows on GitHub (remote)",
      "homepage": "https://github.com/github/github-mcp-server",
      "transport": "http",
      "prompts": [
        {
          "variable": "GITHUB_PERSONAL_ACCESS_TOKEN",
          "question": "Personal access token (https://github.com/settings/personal-access-tokens)",
          "secret": true,
          "required": true,
          "default": null
        }
      ]
    }
    "#);
}

#[test]
fn a_broken_manifest_of_the_home_is_named_and_hides_nothing() {
    let hermes = Hermes::new();
    hermes.home.write("catalog/old.yaml", "version: 2\n");
    let ran = hermes.run(&["mcp", "catalog", "--json"]).ok();
    assert!(ran.stderr.contains("old.yaml"), "{ran:?}");
    assert!(ran.json()["entries"].as_array().unwrap().len() > 10);
    let json = hermes
        .run(&["mcp", "catalog", "no-such-word", "--json"])
        .ok()
        .json();
    assert_eq!(json["entries"], serde_json::json!([]));
}
