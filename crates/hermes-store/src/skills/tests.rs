use hermes_config::Variables;

use super::*;

struct Fixture {
    directory: tempfile::TempDir,
    config: String,
}

impl Fixture {
    fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
            config: String::new(),
        }
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn skills(&self) -> Skills {
        let home = Home::at(self.directory.path().join("home"));
        let (variables, _) = Variables::load(&home, None);
        let settings = Settings::parse(&self.config, variables).unwrap();
        Skills::new(&home, &settings)
    }

    fn names(&self) -> Vec<String> {
        self.skills()
            .list()
            .into_iter()
            .map(|skill| skill.name)
            .collect()
    }
}

fn head(name: &str) -> String {
    format!("---\nname: {name}\ndescription: about {name}\n---\nDo {name}.\n")
}

#[test]
fn skills_are_found_with_and_without_a_category() {
    let fixture = Fixture::new();
    fixture.write("home/skills/plain/SKILL.md", &head("plain"));
    fixture.write("home/skills/writing/essay/SKILL.md", &head("essay"));
    fixture.write("home/skills/writing/DESCRIPTION.md", "All about words.\n");
    fixture.write("home/skills/unnamed/SKILL.md", "Just do it.");
    let skills = fixture.skills();
    let found: Vec<_> = skills
        .list()
        .into_iter()
        .map(|skill| (skill.name, skill.category, skill.description))
        .collect();
    assert_eq!(
        found,
        [
            ("plain".into(), None, "about plain".into()),
            ("unnamed".into(), None, String::new()),
            (
                "essay".into(),
                Some("writing".into()),
                "about essay".to_owned()
            ),
        ]
    );
    assert_eq!(
        skills.category_description("writing").as_deref(),
        Some("All about words.")
    );
    assert_eq!(skills.category_description("../home"), None);
    assert_eq!(skills.category_description("plain"), None);
}

#[test]
fn support_and_tool_directories_are_not_scanned() {
    let fixture = Fixture::new();
    fixture.write("home/skills/a/SKILL.md", &head("a"));
    for inside in ["references", "templates", "assets", "scripts"] {
        fixture.write(&format!("home/skills/a/{inside}/x/SKILL.md"), &head("no"));
    }
    for ignored in [".git", "venv", "node_modules", "__pycache__", ".venv"] {
        fixture.write(&format!("home/skills/{ignored}/x/SKILL.md"), &head("no"));
    }
    // A category may well be called like a support directory.
    fixture.write("home/skills/scripts/b/SKILL.md", &head("b"));
    assert_eq!(fixture.names(), ["a", "b"]);
}

#[test]
fn external_directories_add_and_the_home_wins() {
    let mut fixture = Fixture::new();
    fixture.write("home/skills/same/SKILL.md", "---\nname: same\n---\nhome");
    fixture.write("more/same/SKILL.md", "---\nname: same\n---\nexternal");
    fixture.write("more/other/SKILL.md", &head("other"));
    fixture.config = format!(
        "skills:\n  external_dirs: ['{}', ../absent]\n",
        fixture.directory.path().join("more").display()
    );
    assert_eq!(fixture.names(), ["other", "same"]);
    assert_eq!(fixture.skills().view("same").unwrap().body, "home");
}

#[test]
fn disabled_skills_and_those_for_other_systems_are_hidden() {
    let mut fixture = Fixture::new();
    fixture.write("home/skills/off/SKILL.md", &head("off"));
    fixture.write(
        "home/skills/alien/SKILL.md",
        "---\nname: alien\nplatforms: [plan9]\n---\n",
    );
    fixture.write(
        "home/skills/native/SKILL.md",
        &format!(
            "---\nname: native\nplatforms: [plan9, {}]\n---\n",
            std::env::consts::OS
        ),
    );
    fixture.config = "skills:\n  disabled: [off]\n".into();
    assert_eq!(fixture.names(), ["native"]);
    assert!(matches!(
        fixture.skills().view("off"),
        Err(SkillError::Disabled { .. })
    ));
    assert!(matches!(
        fixture.skills().view("alien"),
        Err(SkillError::NoSuchSkill { .. })
    ));
}

#[test]
fn a_view_has_the_body_and_the_files() {
    let fixture = Fixture::new();
    fixture.write("home/skills/c/a/SKILL.md", &head("a"));
    fixture.write("home/skills/c/a/references/deep/x.md", "X");
    fixture.write("home/skills/c/a/scripts/run.sh", "Y");
    fixture.write("home/skills/c/a/other.txt", "Z");
    let skills = fixture.skills();
    let view = skills.view("c/a").unwrap();
    assert_eq!(view.body, "Do a.\n");
    assert_eq!(view.files, ["references/deep/x.md", "scripts/run.sh"]);
    for (path, text) in [
        ("references/deep/x.md", "X"),
        ("./other.txt", "Z"),
        ("scripts/../other.txt", "Z"),
    ] {
        assert_eq!(skills.view_file("a", path).unwrap(), text);
    }
}

#[test]
#[cfg(unix)]
fn nothing_outside_a_skill_can_be_read() {
    use std::os::unix::fs::symlink;
    let fixture = Fixture::new();
    fixture.write("home/skills/a/SKILL.md", &head("a"));
    fixture.write("home/skills/a/references/x.md", "X");
    fixture.write("home/.env", "SECRET=1");
    let skill = fixture.directory.path().join("home/skills/a");
    symlink("../../../.env", skill.join("references/link")).unwrap();
    symlink(fixture.directory.path().join("home"), skill.join("up")).unwrap();
    let absolute = fixture.directory.path().join("home/.env");
    let skills = fixture.skills();
    for path in [
        "../../.env",
        "references/../../../.env",
        "references/link",
        "up/.env",
        absolute.to_str().unwrap(),
        "",
        "references",
        "missing",
    ] {
        assert!(
            matches!(
                skills.view_file("a", path),
                Err(SkillError::NoSuchFile { .. })
            ),
            "{path}"
        );
    }
    assert_eq!(skills.view("a").unwrap().files, ["references/x.md"]);
    assert!(matches!(
        skills.view("../a"),
        Err(SkillError::NoSuchSkill { .. })
    ));
}

#[test]
#[cfg(unix)]
fn links_in_a_circle_end() {
    let fixture = Fixture::new();
    fixture.write("home/skills/c/a/SKILL.md", &head("a"));
    let category = fixture.directory.path().join("home/skills/c");
    std::os::unix::fs::symlink(&category, category.join("again")).unwrap();
    assert_eq!(fixture.names(), ["a"]);
}
