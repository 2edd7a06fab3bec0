//! Usage by day, tenant and model, and daily limits.

use hermes_hub::{
    RunId, TenantId,
    api_types::{ReachedLimit, RunStatus, RunUsage, Time, UsageDay, UsageGroup},
    storage::state::{
        LimitChange, NewEvent, RunChange, RunUpdate, State, StateError, UsageQuery, UsageSum,
    },
};
use hermes_protocol::{ChatRunUse, RunEvent};

use super::{StateFixture, entry, new_run, open_postgres, tenant_id};
use crate::storage::state::processes::run_sql;

fn completed(model: &str, input: u64, output: u64) -> RunUpdate {
    RunUpdate {
        change: RunChange {
            status: Some(RunStatus::Completed),
            model: Some(model.into()),
            usage: Some(RunUsage {
                input_tokens: input,
                output_tokens: output,
                total_tokens: input + output,
                cached_tokens: 1,
            }),
            ..RunChange::default()
        },
        ..RunUpdate::default()
    }
}

fn tool_calls(first: u64, count: u64) -> RunUpdate {
    let calls = (first..first + count).map(|sequence| NewEvent {
        event: RunEvent::ToolStarted {
            tool: "terminal".into(),
            call_id: sequence.to_string(),
            preview: String::new(),
        },
        agent_sequence: Some(sequence),
    });
    RunUpdate {
        events: calls.collect(),
        ..RunUpdate::default()
    }
}

/// A run that is carried out.
async fn begin(fresh: &StateFixture, tenant: &TenantId) -> RunId {
    let run = fresh.run(tenant).await;
    fresh.state.claim_run(tenant, 100).await.unwrap().unwrap();
    run
}

async fn usage(state: &dyn State, by: UsageGroup, only: Option<Vec<TenantId>>) -> Vec<UsageSum> {
    let today = UsageDay::of(Time::now());
    let query = UsageQuery {
        by,
        // Midnight may pass while this runs.
        first: UsageDay(today.0 - 1),
        last: today.next(),
        only,
    };
    state.run_usage(&query).await.unwrap()
}

fn limit(runs: Option<u64>, tokens: Option<u64>) -> LimitChange {
    LimitChange {
        runs_per_day: Some(runs),
        tokens_per_day: Some(tokens),
    }
}

#[tokio::test]
async fn a_run_is_counted_once_when_it_ends_with_its_tools_and_its_model() {
    let fresh = StateFixture::new().await;
    let tenant = fresh.tenant("a").await.id;
    let state = &*fresh.state;
    let run = begin(&fresh, &tenant).await;
    // What is sent twice counts once.
    for update in [tool_calls(1, 2), tool_calls(2, 2)] {
        state.update_run(&tenant, &run, update).await.unwrap();
    }
    assert!(usage(state, UsageGroup::Tenant, None).await.is_empty());
    let end = completed("gpt", 10, 5);
    state.update_run(&tenant, &run, end.clone()).await.unwrap();
    assert!(state.update_run(&tenant, &run, end).await.is_err());
    let found = usage(state, UsageGroup::Tenant, None).await;
    let expected = UsageSum {
        key: "a".into(),
        model: "gpt".into(),
        runs: 1,
        tool_calls: 3,
        input_tokens: 10,
        output_tokens: 5,
        cached_tokens: 1,
    };
    assert_eq!(found, [expected]);
}

#[tokio::test]
async fn sums_are_by_tenant_model_or_day_and_only_of_tenants_that_may_be_seen() {
    let fresh = StateFixture::new().await;
    let state = &*fresh.state;
    for (tenant, model) in [("a", "m1"), ("a", "m2"), ("b", "m1")] {
        let tenant = match state.tenant(&tenant_id(tenant)).await.unwrap() {
            Some(known) => known.id,
            None => fresh.tenant(tenant).await.id,
        };
        let run = begin(&fresh, &tenant).await;
        let end = completed(model, 10, 5);
        state.update_run(&tenant, &run, end).await.unwrap();
    }
    let keys = |sums: &[UsageSum]| {
        let keys = sums.iter().map(|sum| (sum.key.clone(), sum.runs));
        keys.collect::<Vec<_>>()
    };
    let by_tenant = usage(state, UsageGroup::Tenant, None).await;
    let pairs = [("a", 1), ("a", 1), ("b", 1)].map(|(key, runs)| (key.to_owned(), runs));
    assert_eq!(keys(&by_tenant), pairs);
    let by_model = usage(state, UsageGroup::Model, None).await;
    let pairs = [("m1", 2), ("m2", 1)].map(|(key, runs)| (key.to_owned(), runs));
    assert_eq!(keys(&by_model), pairs);
    let by_day = usage(state, UsageGroup::Day, None).await;
    let runs: u64 = by_day.iter().map(|sum| sum.runs).sum();
    assert_eq!(runs, 3);
    assert!(by_day[0].key.parse::<i64>().is_ok());
    let only = Some(vec![tenant_id("b")]);
    let seen = usage(state, UsageGroup::Tenant, only).await;
    assert_eq!(keys(&seen), [("b".to_owned(), 1)]);
    // What was used stays when the tenant is gone.
    let gone = tenant_id("b");
    let deletion = hermes_hub::storage::state::TenantDeletion::Permanent;
    let deleted = state.delete_tenant(&gone, deletion, None, entry("delete_tenant"));
    deleted.await.unwrap();
    state.purge_tenant(&gone, entry("purge")).await.unwrap();
    assert_eq!(usage(state, UsageGroup::Tenant, None).await.len(), 3);
}

#[tokio::test]
async fn no_more_runs_are_accepted_than_the_limit_of_the_day_allows() {
    let fresh = StateFixture::new().await;
    let tenant = fresh.tenant("a").await.id;
    let other = fresh.tenant("b").await.id;
    let state = &*fresh.state;
    let set = state.set_limits(&tenant, limit(Some(2), None), entry("patch_limits"));
    assert_eq!(set.await.unwrap().limits.runs_per_day, Some(2));
    let create = async |tenant: &TenantId| {
        let run = new_run(tenant);
        state.create_run(run, 100, entry("create_run")).await
    };
    create(&tenant).await.unwrap();
    create(&tenant).await.unwrap();
    let refused = create(&tenant).await.unwrap_err();
    let StateError::DailyLimit {
        limit: what,
        resets_at,
    } = &refused
    else {
        panic!("{refused}");
    };
    assert_eq!(*what, ReachedLimit::Runs(2));
    assert!(*resets_at > Time::now());
    assert!(
        refused.to_string().contains(&resets_at.to_string()),
        "{refused}"
    );
    create(&other).await.unwrap();
    let raised = state.set_limits(&tenant, limit(Some(3), None), entry("patch_limits"));
    raised.await.unwrap();
    create(&tenant).await.unwrap();
    let used = state.limits(&tenant).await.unwrap();
    assert_eq!((used.runs_today, used.limits.runs_per_day), (3, Some(3)));
    let removed = state.set_limits(&tenant, limit(None, None), entry("patch_limits"));
    removed.await.unwrap();
    create(&tenant).await.unwrap();
}

#[tokio::test]
async fn tokens_of_runs_that_ended_count_against_their_limit() {
    let fresh = StateFixture::new().await;
    let tenant = fresh.tenant("a").await.id;
    let state = &*fresh.state;
    let set = state.set_limits(&tenant, limit(None, Some(15)), entry("patch_limits"));
    set.await.unwrap();
    let run = begin(&fresh, &tenant).await;
    // A run that has begun is not stopped by what others use meanwhile.
    let second = begin(&fresh, &tenant).await;
    let end = completed("gpt", 10, 5);
    state.update_run(&tenant, &run, end).await.unwrap();
    let refused = state
        .create_run(new_run(&tenant), 100, entry("create_run"))
        .await;
    let refused = refused.unwrap_err();
    assert!(
        matches!(
            refused,
            StateError::DailyLimit {
                limit: ReachedLimit::Tokens(15),
                ..
            }
        ),
        "{refused}"
    );
    let end = completed("gpt", 1, 1);
    state.update_run(&tenant, &second, end).await.unwrap();
    assert_eq!(state.limits(&tenant).await.unwrap().tokens_today, 17);
    // Another day begins: nothing of this one counts any more.
    let tomorrow = UsageDay::of(Time::now()).next().next();
    assert_eq!(state.forget_limit_days(tomorrow).await.unwrap(), 1);
    assert_eq!(state.limits(&tenant).await.unwrap().tokens_today, 0);
}

#[tokio::test]
async fn a_run_of_a_chat_counts_once_however_often_it_is_told() {
    let fresh = StateFixture::new().await;
    let tenant = fresh.tenant("a").await.id;
    let other = fresh.tenant("b").await.id;
    let state = &*fresh.state;
    let [first, second] = ["1", "2"].map(|digit| {
        let id = format!("run_{}", digit.repeat(32));
        RunId::parse(&id).unwrap()
    });
    let set = state.set_limits(&tenant, limit(Some(1), None), entry("patch_limits"));
    set.await.unwrap();
    for _ in 0..2 {
        state.begin_chat_run(&tenant, &first).await.unwrap();
    }
    let refused = state.begin_chat_run(&tenant, &second).await.unwrap_err();
    assert!(
        matches!(refused, StateError::DailyLimit { .. }),
        "{refused}"
    );
    let open = state.open_chat_runs(&tenant).await.unwrap();
    assert_eq!(open, std::slice::from_ref(&first));
    let used = ChatRunUse {
        model: Some("gpt".into()),
        tool_calls: 2,
        input_tokens: 10,
        output_tokens: 5,
        total_tokens: 15,
        cached_tokens: 1,
    };
    state.end_chat_run(&other, &first, &used).await.unwrap();
    state.end_chat_run(&tenant, &second, &used).await.unwrap();
    assert!(usage(state, UsageGroup::Tenant, None).await.is_empty());
    for _ in 0..2 {
        state.end_chat_run(&tenant, &first, &used).await.unwrap();
    }
    assert!(state.open_chat_runs(&tenant).await.unwrap().is_empty());
    let expected = UsageSum {
        key: "a".into(),
        model: "gpt".into(),
        runs: 1,
        tool_calls: 2,
        input_tokens: 10,
        output_tokens: 5,
        cached_tokens: 1,
    };
    assert_eq!(usage(state, UsageGroup::Tenant, None).await, [expected]);
    let today = state.limits(&tenant).await.unwrap();
    assert_eq!((today.runs_today, today.tokens_today), (1, 15));
    // Whoever never tells is not waited for forever.
    let raised = state.set_limits(&tenant, limit(None, None), entry("patch_limits"));
    raised.await.unwrap();
    state.begin_chat_run(&tenant, &second).await.unwrap();
    let later = UsageDay::of(Time::now()).next().next();
    state.forget_limit_days(later).await.unwrap();
    assert!(state.open_chat_runs(&tenant).await.unwrap().is_empty());
}

/// Takes away what adds up the rows of tenants.
const WITHOUT_TOTALS_ON_SQLITE: &str =
    "DROP TRIGGER usage_added; DROP TRIGGER usage_changed; DROP TRIGGER usage_removed;
    DROP TABLE usage_totals; DROP INDEX usage_days_by_tenant;";
const WITHOUT_TOTALS_ON_POSTGRES: &str =
    "DROP TRIGGER keep_totals ON usage_days; DROP FUNCTION add_to_usage_totals();
    DROP TABLE usage_totals; DROP INDEX usage_days_by_tenant;";

/// A run of a chat that has ended.
async fn end_chat(state: &dyn State, tenant: &TenantId, model: &str, tokens: u64) {
    let run = RunId::random().unwrap();
    state.begin_chat_run(tenant, &run).await.unwrap();
    let used = ChatRunUse {
        model: Some(model.into()),
        tool_calls: tokens % 3,
        input_tokens: tokens,
        output_tokens: tokens / 2,
        total_tokens: tokens + tokens / 2,
        cached_tokens: tokens / 4,
    };
    state.end_chat_run(tenant, &run, &used).await.unwrap();
}

/// Compares what is kept for all tenants with the rows of each of them, and returns how many runs there were.
async fn check_totals(state: &dyn State, tenants: &[TenantId]) -> u64 {
    let mut runs = 0;
    for by in [UsageGroup::Day, UsageGroup::Model] {
        let kept = usage(state, by, None).await;
        let added_up = usage(state, by, Some(tenants.to_vec())).await;
        assert_eq!(kept, added_up, "by {by}");
        runs = kept.iter().map(|sum| sum.runs).sum();
    }
    let each = usage(state, UsageGroup::Tenant, None).await;
    assert_eq!(each.iter().map(|sum| sum.runs).sum::<u64>(), runs);
    runs
}

#[tokio::test]
async fn totals_are_the_sum_of_what_tenants_used_whoever_writes_together() {
    let fresh = StateFixture::new().await;
    let state = &fresh.state;
    let other = match &fresh.database {
        Some(database) => open_postgres(database.url(), "n2").await,
        None => std::sync::Arc::clone(state),
    };
    let mut tenants = Vec::new();
    for name in ["a", "b", "c", "d"] {
        tenants.push(fresh.tenant(name).await.id);
    }
    let writes = (0..48u64).map(|number| {
        // A tenant belongs to one node; days and models are those of all.
        let node = if number % 2 == 0 { state } else { &other };
        let place = number % 2 * 2 + number / 2 % 2;
        let tenant = &tenants[usize::try_from(place).unwrap()];
        let model = ["m1", "m2", ""][usize::try_from(number % 3).unwrap()];
        end_chat(&**node, tenant, model, number)
    });
    futures::future::join_all(writes).await;
    assert_eq!(check_totals(&**state, &tenants).await, 48);
    // What was used stays when the tenant is gone.
    let deletion = hermes_hub::storage::state::TenantDeletion::Permanent;
    let deleted = state.delete_tenant(&tenants[1], deletion, None, entry("delete_tenant"));
    deleted.await.unwrap();
    let purged = state.purge_tenant(&tenants[1], entry("purge"));
    purged.await.unwrap();
    assert_eq!(check_totals(&**state, &tenants).await, 48);
}

#[tokio::test]
async fn totals_follow_rows_that_are_changed_and_removed_by_hand() {
    let fresh = StateFixture::new().await;
    let state = &*fresh.state;
    let tenants = [fresh.tenant("a").await.id, fresh.tenant("b").await.id];
    for tenant in &tenants {
        end_chat(state, tenant, "m1", 100).await;
        end_chat(state, tenant, "m2", 7).await;
    }
    let sql = "UPDATE usage_days SET model = 'm3', runs = 5 WHERE tenant = 'a' AND model = 'm1';
        DELETE FROM usage_days WHERE tenant = 'b' AND model = 'm1';";
    run_sql(&fresh, sql).await;
    assert_eq!(check_totals(state, &tenants).await, 7);
    let models = usage(state, UsageGroup::Model, None).await;
    let models: Vec<&str> = models.iter().map(|sum| sum.model.as_str()).collect();
    assert_eq!(models, ["m2", "m3"]);
}

#[tokio::test]
async fn totals_of_earlier_days_are_there_after_the_migration() {
    let fresh = StateFixture::new().await;
    let state = &*fresh.state;
    let tenants = [fresh.tenant("a").await.id, fresh.tenant("b").await.id];
    let (without, migration) = if fresh.database.is_some() {
        let migration = include_str!("../../../../migrations/postgres/0013.sql");
        (WITHOUT_TOTALS_ON_POSTGRES, migration)
    } else {
        let migration = include_str!("../../../../migrations/sqlite/0012.sql");
        (WITHOUT_TOTALS_ON_SQLITE, migration)
    };
    run_sql(&fresh, without).await;
    for tenant in &tenants {
        end_chat(state, tenant, "m1", 100).await;
        end_chat(state, tenant, "m2", 10).await;
    }
    run_sql(&fresh, migration).await;
    assert_eq!(check_totals(state, &tenants).await, 4);
    end_chat(state, &tenants[0], "m1", 1).await;
    assert_eq!(check_totals(state, &tenants).await, 5);
}

#[tokio::test]
async fn tenants_that_used_something_are_listed_from_one_to_the_next() {
    let fresh = StateFixture::new().await;
    let state = &*fresh.state;
    assert!(state.tenants_with_usage(None, 10).await.unwrap().is_empty());
    for name in ["b", "a-b", "a", "ab", "idle"] {
        let tenant = fresh.tenant(name).await.id;
        if name != "idle" {
            end_chat(state, &tenant, "m1", 1).await;
            end_chat(state, &tenant, "m2", 1).await;
        }
    }
    let list = async |after: Option<&str>, most| {
        let after = after.map(tenant_id);
        let found = state.tenants_with_usage(after.as_ref(), most).await;
        let found = found.unwrap().into_iter();
        found.map(|id| id.to_string()).collect::<Vec<_>>()
    };
    // By bytes, in both databases.
    assert_eq!(list(None, 10).await, ["a", "a-b", "ab", "b"]);
    assert_eq!(list(None, 2).await, ["a", "a-b"]);
    assert_eq!(list(Some("a-b"), 10).await, ["ab", "b"]);
    assert!(list(Some("b"), 10).await.is_empty());
}
