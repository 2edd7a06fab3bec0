//! Writes of one node share commits, and fail alone.

use futures::future::join_all;
use hermes_hub::storage::state::{StateError, TenantChange};

use super::{StateFixture, entry};

/// Writes down which transaction has stored each value.
const RECORD_TRANSACTIONS: &str = "CREATE TABLE seen (transaction xid8);
    CREATE FUNCTION record_transaction() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO seen VALUES (pg_current_xact_id()); RETURN NEW; END $$;
    CREATE TRIGGER seen AFTER INSERT ON meta FOR EACH ROW EXECUTE FUNCTION record_transaction();";

#[tokio::test]
async fn writes_that_wait_together_are_all_there_and_share_commits() {
    let fresh = StateFixture::new().await;
    let database = fresh.database.as_ref().unwrap();
    database.run_sql(RECORD_TRANSACTIONS);
    let names: Vec<String> = (0..100).map(|number| format!("value{number}")).collect();
    let stored = join_all(names.iter().map(|name| fresh.state.set_meta(name, b"1"))).await;
    assert!(stored.iter().all(Result::is_ok), "{stored:?}");
    assert_eq!(
        database.run_sql("SELECT count(*) FROM meta WHERE name LIKE 'value%'"),
        "100"
    );
    let transactions = database.run_sql("SELECT count(DISTINCT transaction) FROM seen");
    let transactions: u32 = transactions.parse().unwrap();
    assert!(transactions < 15, "{transactions} commits for 100 writes");
}

#[tokio::test]
async fn a_write_that_fails_takes_no_other_with_it_and_the_chain_holds() {
    let fresh = StateFixture::new().await;
    let id = fresh.tenant("a").await.id;
    let change = |number: u32| {
        // Every third is refused after it has changed something: its group does not exist.
        let groups = number.is_multiple_of(3).then(|| {
            let group = hermes_hub::GroupId::parse("nowhere").unwrap();
            vec![hermes_hub::api_types::GroupMembership {
                id: group,
                access: hermes_hub::api_types::MemberAccess::Read,
            }]
        });
        let change = TenantChange {
            display_name: Some(format!("Name {number}")),
            groups,
            ..TenantChange::default()
        };
        fresh
            .state
            .update_tenant(&id, change, None, entry("update_tenant"))
    };
    // Not all hold the connection until the end: some are left in the middle.
    let left = futures::future::select(
        Box::pin(join_all((0..10).map(change))),
        Box::pin(tokio::time::sleep(std::time::Duration::from_millis(5))),
    )
    .await;
    drop(left);
    // A commit that was left on its way holds the row until it is done, and so does this one wait for it.
    change(1).await.unwrap();
    let before = fresh.state.tenant(&id).await.unwrap().unwrap();
    let changed = join_all((0..60).map(change)).await;
    for (number, changed) in changed.iter().enumerate() {
        let is_refused = matches!(
            changed,
            Err(StateError::Conflict {
                reason: "no_such_group",
                ..
            })
        );
        assert_eq!(
            is_refused,
            number.is_multiple_of(3),
            "{number}: {changed:?}"
        );
        assert_eq!(changed.is_ok(), number % 3 != 0, "{number}: {changed:?}");
    }
    let after = fresh.state.tenant(&id).await.unwrap().unwrap();
    assert_eq!(after.revision, before.revision + 40);
    let checks = fresh.state.verify_audit().await.unwrap();
    assert_eq!(checks[0].broken, None);
    assert_eq!(checks[0].entries, after.revision, "an entry each");
}

/// The server refuses one tenant's row, and counts the statements that change tenants.
const REFUSE_ONE: &str = "CREATE SEQUENCE statements;
    CREATE FUNCTION count_statement() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM nextval('statements'); RETURN NULL; END $$;
    CREATE TRIGGER counted AFTER UPDATE ON tenants EXECUTE FUNCTION count_statement();
    CREATE FUNCTION refuse_one() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN IF NEW.display_name = 'bad' THEN RAISE EXCEPTION 'refused'; END IF; RETURN NEW; END $$;
    CREATE TRIGGER refused BEFORE UPDATE ON tenants FOR EACH ROW EXECUTE FUNCTION refuse_one();";

#[tokio::test]
async fn changes_of_many_tenants_are_a_few_statements_and_one_that_the_server_refuses_harms_no_other()
 {
    let fresh = StateFixture::new().await;
    let database = fresh.database.as_ref().unwrap();
    let mut ids = Vec::new();
    for number in 0..30 {
        ids.push(fresh.tenant(&format!("t{number:02}")).await.id);
    }
    database.run_sql(REFUSE_ONE);
    let change = |(number, name): (usize, &'static str)| {
        let change = TenantChange {
            display_name: Some(name.to_owned()),
            ..TenantChange::default()
        };
        let entry = entry("update_tenant");
        fresh.state.update_tenant(&ids[number], change, None, entry)
    };
    let good = join_all((0..30).map(|number| change((number, "good")))).await;
    assert!(good.iter().all(Result::is_ok), "{good:?}");
    let statements = database.run_sql("SELECT last_value FROM statements");
    let statements: u32 = statements.parse().unwrap();
    assert!(statements < 10, "{statements} statements for 30 changes");
    let names = |number: usize| if number == 11 { "bad" } else { "better" };
    let mixed = join_all((0..30).map(|number| change((number, names(number))))).await;
    for (number, changed) in mixed.iter().enumerate() {
        assert_eq!(changed.is_ok(), number != 11, "{number}: {changed:?}");
    }
    let checks = fresh.state.verify_audit().await.unwrap();
    assert_eq!(checks[0].broken, None);
    // 30 were made, 30 and then 29 changed.
    assert_eq!(checks[0].entries, 89);
    assert_eq!(
        database.run_sql("SELECT count(*) FROM tenants WHERE display_name = 'better'"),
        "29"
    );
}
