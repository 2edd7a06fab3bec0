//! Changing tenants' rows: one, with all that belongs to it, or several at once.

use std::collections::HashMap;

use async_trait::async_trait;

use super::{
    super::{
        PostgresState,
        env::{set_variable, unset_variable},
        hub_events::add_events,
        optional_storable, to_column,
        write_group::GroupedWrite,
    },
    record::{lock_present, lock_tenant, optional_json, set_groups},
};
use crate::{
    TenantId,
    api_types::{HubEventType, Time},
    storage::state::{
        NewHubEvent, StateError, TenantRecord,
        records::tenant_from_row,
        tenant_updates::{BatchError, TenantUpdate, TenantUpdater},
    },
};

#[async_trait]
impl TenantUpdater for PostgresState {
    async fn update_alone(&self, update: TenantUpdate) -> Result<TenantRecord, StateError> {
        let TenantUpdate {
            id,
            change,
            expected,
            entry,
        } = update;
        let mut write = self.begin_change().await?;
        // One statement: each is a way to the server and back.
        let update = sqlx::query(
            "UPDATE tenants t SET display_name = COALESCE($3, display_name), flavor = COALESCE($4, flavor),
                 agent = COALESCE($5, agent), storage = COALESCE($6, storage), browser = COALESCE($7, browser),
                 labels = COALESCE($8, labels), generation = generation + 1, revision = revision + 1, updated_at = $9,
                 observed_generation = CASE
                     WHEN $10 = 'no agent' OR ($10 = 'nobody' AND observed_generation = generation) THEN generation + 1
                     ELSE observed_generation END
             FROM (SELECT $1::text AS id) c LEFT JOIN usage u ON u.kind = 'tenant' AND u.owner = c.id
             WHERE t.id = c.id AND status <> 'deleted' AND revision = COALESCE($2, revision)
             RETURNING t.*, u.bytes AS used_bytes, u.files AS used_files,
                 COALESCE((SELECT json_agg(json_build_object('id', group_id, 'access', access))
                  FROM members WHERE tenant = $1)::text, '[]') AS memberships",
        )
        .bind(id.as_str())
        .bind(expected.map(to_column))
        .bind(optional_storable(change.display_name.as_ref()))
        .bind(&change.flavor)
        .bind(optional_json(change.agent.as_ref())?)
        .bind(optional_json(change.storage.as_ref())?)
        .bind(optional_json(change.browser.as_ref())?)
        .bind(optional_json(change.labels.as_ref())?)
        .bind(Time::now().millis())
        .bind(change.propagation.as_word());
        let Some(changed) = write.optional(update).await? else {
            lock_present(&mut write, &id, expected).await?;
            return Err(StateError::Changed { what: "tenant" });
        };
        let mut tenant = tenant_from_row(&changed)?;
        if let Some(groups) = &change.groups {
            set_groups(&mut write, &id, groups).await?;
        }
        for variable in &change.env {
            set_variable(&mut write, &id, variable).await?;
        }
        for name in &change.unset_env {
            unset_variable(&mut write, &id, name).await?;
        }
        self.append_effect(&mut write, entry).await?;
        if change.groups.is_some() {
            tenant = lock_tenant(&mut write, &id).await?;
        }
        let events = [NewHubEvent::tenant(HubEventType::TenantChanged, &tenant)];
        self.commit_with(write, &events).await?;
        Ok(tenant)
    }

    async fn update_rows(
        &self,
        updates: &[TenantUpdate],
    ) -> Result<Vec<Option<TenantRecord>>, BatchError> {
        let mut write = self.begin_change().await.map_err(BatchError::All)?;
        let changed = async {
            let mut changed = change_rows(&mut write, updates).await?;
            let records: Vec<_> = updates
                .iter()
                .map(|update| changed.remove(&update.id))
                .collect();
            let (mut entries, mut events) = (Vec::new(), Vec::new());
            for (update, record) in updates.iter().zip(&records) {
                if let Some(record) = record {
                    entries.push(update.entry.clone());
                    events.push(NewHubEvent::tenant(HubEventType::TenantChanged, record));
                }
            }
            self.append_effects(&mut write, entries).await?;
            add_events(&mut write, &events).await?;
            Ok::<_, StateError>(records)
        };
        let records = match changed.await {
            Ok(records) => records,
            // Without a connection each of them would wait for the server once more.
            Err(error) if write.is_lost() => return Err(BatchError::All(error)),
            Err(_) => return Err(BatchError::TryAlone),
        };
        write.commit().await.map_err(BatchError::All)?;
        self.tell_all_watchers();
        Ok(records)
    }
}

/// Changes the rows that are as expected; returns them as they are then. They are locked in the order of their names.
/// What belongs to them is joined: of small tables, a subquery would scan all rows once for each tenant.
async fn change_rows(
    write: &mut GroupedWrite,
    updates: &[TenantUpdate],
) -> Result<HashMap<TenantId, TenantRecord>, StateError> {
    let mut columns = UpdateColumns::default();
    for update in updates {
        columns.push(update)?;
    }
    let update = sqlx::query(
        "WITH locked AS MATERIALIZED (
             SELECT id FROM tenants WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE)
         UPDATE tenants t SET display_name = COALESCE(c.display_name, t.display_name),
             flavor = COALESCE(c.flavor, t.flavor), agent = COALESCE(c.agent, t.agent),
             storage = COALESCE(c.storage, t.storage), browser = COALESCE(c.browser, t.browser),
             labels = COALESCE(c.labels, t.labels), generation = t.generation + 1, revision = t.revision + 1,
             updated_at = $10,
             observed_generation = CASE
                 WHEN c.reach = 'no agent' OR (c.reach = 'nobody' AND t.observed_generation = t.generation)
                 THEN t.generation + 1 ELSE t.observed_generation END
         FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
                 $9::text[]) AS c (id, expected, display_name, flavor, agent, storage, browser, labels, reach)
             JOIN locked ON locked.id = c.id
             LEFT JOIN usage u ON u.kind = 'tenant' AND u.owner = c.id
             LEFT JOIN (SELECT tenant, json_agg(json_build_object('id', group_id, 'access', access))::text AS groups
                 FROM members WHERE tenant = ANY($1) GROUP BY tenant) m ON m.tenant = c.id
         WHERE t.id = locked.id AND t.id = ANY($1) AND t.status <> 'deleted'
             AND t.revision = COALESCE(c.expected, t.revision)
         RETURNING t.*, u.bytes AS used_bytes, u.files AS used_files, COALESCE(m.groups, '[]') AS memberships",
    )
    .bind(columns.ids)
    .bind(columns.expected)
    .bind(columns.display_names)
    .bind(columns.flavors)
    .bind(columns.agents)
    .bind(columns.storages)
    .bind(columns.browsers)
    .bind(columns.labels)
    .bind(columns.reaches)
    .bind(Time::now().millis());
    let changed = write.rows(update).await?;
    let records = changed.iter().map(tenant_from_row);
    records
        .map(|record| record.map(|record| (record.id.clone(), record)))
        .collect()
}

/// Changes of rows, by column.
#[derive(Default)]
struct UpdateColumns {
    ids: Vec<String>,
    expected: Vec<Option<i64>>,
    display_names: Vec<Option<String>>,
    flavors: Vec<Option<String>>,
    agents: Vec<Option<String>>,
    storages: Vec<Option<String>>,
    browsers: Vec<Option<String>>,
    labels: Vec<Option<String>>,
    reaches: Vec<&'static str>,
}

impl UpdateColumns {
    fn push(&mut self, update: &TenantUpdate) -> Result<(), StateError> {
        let change = &update.change;
        self.ids.push(update.id.to_string());
        self.expected.push(update.expected.map(to_column));
        let display_name = optional_storable(change.display_name.as_ref());
        self.display_names.push(display_name);
        self.flavors.push(change.flavor.clone());
        self.agents.push(optional_json(change.agent.as_ref())?);
        self.storages.push(optional_json(change.storage.as_ref())?);
        self.browsers.push(optional_json(change.browser.as_ref())?);
        self.labels.push(optional_json(change.labels.as_ref())?);
        self.reaches.push(change.propagation.as_word());
        Ok(())
    }
}
