use super::*;

struct NoShares;

impl Shares for NoShares {
    fn groups(&self) -> SharesFuture<'_, Vec<MemberGroup>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn read<'a>(&'a self, path: &'a GroupPath, _: usize, _: usize) -> SharesFuture<'a, FileLines> {
        Box::pin(async move { Err(SharesError(format!("{path}: nobody reads"))) })
    }

    fn write<'a>(
        &'a self,
        _: &'a GroupPath,
        _: String,
        _: Option<&'a str>,
    ) -> SharesFuture<'a, WriteOutcome> {
        Box::pin(async { Err(SharesError("nobody writes".into())) })
    }

    fn remove<'a>(&'a self, _: &'a GroupPath, _: &'a str) -> SharesFuture<'a, ()> {
        Box::pin(async { Err(SharesError("nobody removes".into())) })
    }

    fn grep<'a>(
        &'a self,
        _: &'a GroupPath,
        _: &'a str,
    ) -> SharesFuture<'a, SearchResults<GrepMatch>> {
        Box::pin(async { Err(SharesError("nobody searches".into())) })
    }

    fn find<'a>(&'a self, _: &'a GroupPath, _: &'a str) -> SharesFuture<'a, SearchResults<String>> {
        Box::pin(async { Err(SharesError("nobody finds".into())) })
    }

    fn exists<'a>(&'a self, _: &'a GroupPath) -> SharesFuture<'a, bool> {
        Box::pin(async { Ok(false) })
    }
}

fn teams() -> Teams {
    Teams::new(Arc::new(NoShares), Path::new("/home/workspace"))
}

fn spot(group: &str, path: &str) -> PathRoute {
    PathRoute::Share(GroupPath {
        group: group.into(),
        path: path.into(),
    })
}

#[test]
fn only_paths_beneath_teams_of_the_workspace_lead_to_a_hub() {
    let teams = teams();
    for (path, way) in [
        ("teams", PathRoute::Top),
        ("./teams/", PathRoute::Top),
        ("teams/a", spot("a", "")),
        ("teams/a/b/c.md", spot("a", "b/c.md")),
        ("teams/a/../b/c.md", spot("b", "c.md")),
        ("/home/workspace/teams/a/x", spot("a", "x")),
        ("teams/a/../../x", PathRoute::Disk),
        ("teams2/x", PathRoute::Disk),
        ("notes/teams/x", PathRoute::Disk),
        ("/home/teams/a", PathRoute::Disk),
        ("~/teams/a", PathRoute::Disk),
        ("../teams/a", PathRoute::Disk),
    ] {
        assert_eq!(teams.route_path(path), way, "{path}");
    }
}

#[test]
fn a_patch_that_names_a_groups_file_is_noticed() {
    let patch = |path: &str| {
        format!("*** Begin Patch\n*** Add File: x\n+x\n*** Add File: {path}\n+y\n*** End Patch")
    };
    assert!(patching::patch_names_share(&teams(), &patch("teams/a/y")));
    assert!(!patching::patch_names_share(&teams(), &patch("y")));
}

#[test]
fn lines_have_the_numbers_of_their_file() {
    let text = FileLines {
        content: "two\nthree\n".into(),
        total_lines: 9,
        next: Some(3),
        version: "\"1\"".into(),
    };
    assert_eq!(
        format_lines("teams/a/x", 2, &text),
        "     2|two\n     3|three\n\n[lines 2-3 of 9; go on with offset=4]"
    );
}
