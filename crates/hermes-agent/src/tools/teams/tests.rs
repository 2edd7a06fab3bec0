use super::*;

struct Nobody;

impl Shares for Nobody {
    fn groups(&self) -> Asked<'_, Vec<Group>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn read<'a>(&'a self, spot: &'a Spot, _: usize, _: usize) -> Asked<'a, Text> {
        Box::pin(async move { Err(SharesError(format!("{spot}: nobody reads"))) })
    }

    fn write<'a>(&'a self, _: &'a Spot, _: String, _: Option<&'a str>) -> Asked<'a, Placed> {
        Box::pin(async { Err(SharesError("nobody writes".into())) })
    }

    fn remove<'a>(&'a self, _: &'a Spot, _: &'a str) -> Asked<'a, ()> {
        Box::pin(async { Err(SharesError("nobody removes".into())) })
    }

    fn grep<'a>(&'a self, _: &'a Spot, _: &'a str) -> Asked<'a, Found<Hit>> {
        Box::pin(async { Err(SharesError("nobody searches".into())) })
    }

    fn find<'a>(&'a self, _: &'a Spot, _: &'a str) -> Asked<'a, Found<String>> {
        Box::pin(async { Err(SharesError("nobody finds".into())) })
    }

    fn exists<'a>(&'a self, _: &'a Spot) -> Asked<'a, bool> {
        Box::pin(async { Ok(false) })
    }
}

fn teams() -> Teams {
    Teams::new(Arc::new(Nobody), Path::new("/home/workspace"))
}

fn spot(group: &str, path: &str) -> Way {
    Way::To(Spot {
        group: group.into(),
        path: path.into(),
    })
}

#[test]
fn only_paths_beneath_teams_of_the_workspace_lead_to_a_hub() {
    let teams = teams();
    for (path, way) in [
        ("teams", Way::Top),
        ("./teams/", Way::Top),
        ("teams/a", spot("a", "")),
        ("teams/a/b/c.md", spot("a", "b/c.md")),
        ("teams/a/../b/c.md", spot("b", "c.md")),
        ("/home/workspace/teams/a/x", spot("a", "x")),
        ("teams/a/../../x", Way::Disk),
        ("teams2/x", Way::Disk),
        ("notes/teams/x", Way::Disk),
        ("/home/teams/a", Way::Disk),
        ("~/teams/a", Way::Disk),
        ("../teams/a", Way::Disk),
    ] {
        assert_eq!(teams.way(path), way, "{path}");
    }
}

#[test]
fn a_patch_that_names_a_groups_file_is_noticed() {
    let patch = |path: &str| {
        format!("*** Begin Patch\n*** Add File: x\n+x\n*** Add File: {path}\n+y\n*** End Patch")
    };
    assert!(patching::touches(&teams(), &patch("teams/a/y")));
    assert!(!patching::touches(&teams(), &patch("y")));
}

#[test]
fn lines_have_the_numbers_of_their_file() {
    let text = Text {
        content: "two\nthree\n".into(),
        total_lines: 9,
        next: Some(3),
        version: "\"1\"".into(),
    };
    assert_eq!(
        numbered("teams/a/x", 2, &text),
        "     2|two\n     3|three\n\n[lines 2-3 of 9; go on with offset=4]"
    );
}
