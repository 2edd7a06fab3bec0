//! The keys under `oauth`.

use crate::{
    fields::Fields,
    server::{DpopUse, EnterpriseSettings, OAuthGrant, OAuthSettings, ServerEntryError},
};

pub(super) fn parse_oauth(fields: &Fields) -> Result<OAuthSettings, ServerEntryError> {
    fields.warn_unknown(&[
        "client_id",
        "client_secret",
        "private_key",
        "issuer",
        "scope",
        "redirect_port",
        "redirect_uri",
        "redirect_host",
        "client_name",
        "timeout",
        "grant",
        "client_metadata_url",
        "assertion",
        "enterprise",
        "dpop",
    ]);
    let default = OAuthSettings::default();
    let grants = [
        ("authorization_code", Some(OAuthGrant::AuthorizationCode)),
        ("device_code", Some(OAuthGrant::DeviceCode)),
        ("client_credentials", Some(OAuthGrant::ClientCredentials)),
        ("jwt_bearer", Some(OAuthGrant::JwtBearer)),
        ("enterprise_managed", Some(OAuthGrant::EnterpriseManaged)),
    ];
    let dpop = [
        ("auto", DpopUse::Auto),
        ("on", DpopUse::On),
        ("true", DpopUse::On),
        ("off", DpopUse::Off),
        ("false", DpopUse::Off),
    ];
    let port = fields.integer("redirect_port", 0, 0);
    Ok(OAuthSettings {
        client_id: fields.text("client_id"),
        client_secret: fields.text("client_secret"),
        private_key: fields.text("private_key"),
        issuer: fields.text("issuer"),
        scope: parse_scope(fields),
        redirect_port: u16::try_from(port).unwrap_or_else(|_| {
            fields.warn(
                "redirect_port",
                "must be at most 65535; any free port is used instead",
            );
            0
        }),
        redirect_uri: fields.text("redirect_uri"),
        redirect_host: fields
            .text("redirect_host")
            .unwrap_or(default.redirect_host),
        client_name: fields.text("client_name").unwrap_or(default.client_name),
        timeout: fields.seconds("timeout", default.timeout),
        grant: fields.choice("grant", &grants, default.grant),
        client_metadata_url: fields.text("client_metadata_url"),
        assertion: fields.text("assertion"),
        enterprise: parse_enterprise(fields)?,
        dpop: fields.choice("dpop", &dpop, default.dpop),
    })
}

/// Scopes are one text with spaces; a list says the same.
fn parse_scope(fields: &Fields) -> Option<String> {
    fields.texts_or_warn("scope").map(|scopes| scopes.join(" "))
}

fn parse_enterprise(fields: &Fields) -> Result<Option<EnterpriseSettings>, ServerEntryError> {
    if !fields.is_set("enterprise") {
        return Ok(None);
    }
    let section = fields.section("enterprise");
    section.warn_unknown(&[
        "issuer",
        "token_endpoint",
        "client_id",
        "client_secret",
        "id_token",
    ]);
    let missing = |key: &str, reason: &str| ServerEntryError::BadValue {
        key: format!("oauth.enterprise.{key}"),
        reason: reason.into(),
    };
    let id_token = section.text("id_token").ok_or_else(|| {
        missing(
            "id_token",
            "is missing; name where it is, such as `${file:…}`",
        )
    })?;
    let settings = EnterpriseSettings {
        issuer: section.text("issuer"),
        token_endpoint: section.text("token_endpoint"),
        client_id: section.text("client_id"),
        client_secret: section.text("client_secret"),
        id_token,
    };
    if settings.issuer.is_none() && settings.token_endpoint.is_none() {
        return Err(missing("issuer", "is missing; name the identity provider"));
    }
    Ok(Some(settings))
}
