//! The library of skills.

use hermes_hub::storage::state::{NewLibrarySkill, Page, StateError};

use super::{StateFixture, entry};

fn skill(name: &str, archive: &[u8]) -> NewLibrarySkill {
    NewLibrarySkill {
        name: name.to_owned(),
        description: "Works.".to_owned(),
        version: Some("1.0".to_owned()),
        files: 2,
        bytes: 9,
        archive: archive.to_vec(),
    }
}

#[tokio::test]
async fn skills_are_kept_by_name_and_replaced_by_revision() {
    let mut fresh = StateFixture::new().await;
    let put = async |fresh: &StateFixture, name: &str, archive: &[u8], expected| {
        let entry = entry("put_library_skill");
        let skill = skill(name, archive);
        fresh
            .state
            .put_library_skill(skill, "tok_7", expected, entry)
            .await
    };
    for name in ["b", "a-1", "c"] {
        let stored = put(&fresh, name, &[0, 255], None).await.unwrap();
        assert_eq!(stored.revision, 1);
    }
    let again = put(&fresh, "b", b"new", Some(1)).await.unwrap();
    assert_eq!((again.revision, again.updated_by.as_str()), (2, "tok_7"));
    let late = put(&fresh, "b", b"late", Some(1)).await;
    assert!(matches!(late, Err(StateError::Changed { .. })));
    fresh.reopen().await;
    let state = &fresh.state;
    let (found, archive) = state.library_skill("b").await.unwrap().unwrap();
    assert_eq!((found, archive.as_slice()), (again, &b"new"[..]));
    let (_, archive) = state.library_skill("a-1").await.unwrap().unwrap();
    assert_eq!(archive, [0, 255]);
    assert!(state.library_skill("d").await.unwrap().is_none());
    let first = state.library_skills(&Page::first(2)).await.unwrap();
    let rest = Page::after(2, first.next.clone().unwrap());
    let rest = state.library_skills(&rest).await.unwrap();
    let listed = first.items.iter().chain(&rest.items);
    let names: Vec<_> = listed.map(|skill| skill.name.as_str()).collect();
    assert_eq!((names, rest.next), (vec!["a-1", "b", "c"], None));
    let delete = async |name: &str, expected| {
        let entry = entry("delete_library_skill");
        state.delete_library_skill(name, expected, entry).await
    };
    assert!(matches!(
        delete("b", Some(1)).await,
        Err(StateError::Changed { .. })
    ));
    delete("b", Some(2)).await.unwrap();
    assert!(matches!(
        delete("b", None).await,
        Err(StateError::NotFound { .. })
    ));
    let checks = state.verify_audit().await.unwrap();
    assert_eq!((checks[0].entries, &checks[0].broken), (5, &None));
}
