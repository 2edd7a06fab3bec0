//! What comes back from the authorization endpoint is not believed.

use super::*;

/// The code was not turned in, and nothing was kept.
#[track_caller]
fn nothing_happened(place: &OAuthHome) {
    assert_eq!(place.grants("authorization_code"), 0);
    assert!(!place.token_file().exists());
}

#[test]
fn an_answer_with_a_wrong_state_is_not_used() {
    for (fault, why) in [
        (CallbackFault::WrongState, "its `state` is wrong"),
        (CallbackFault::MissingState, "has no `state`"),
    ] {
        let place = OAuthHome::usual();
        place.server.set_callback_fault(Some(fault));
        place.log_in().failed(&[why]);
        nothing_happened(&place);
    }
}

#[test]
fn an_answer_of_another_issuer_is_not_used() {
    let place = OAuthHome::usual();
    let other = "https://other.example".to_owned();
    let fault = CallbackFault::WrongIssuer(other.clone());
    place.server.set_callback_fault(Some(fault));
    place.log_in().failed(&[&other, &place.server.issuer()]);
    nothing_happened(&place);
}

#[test]
fn an_answer_without_the_promised_issuer_is_not_used() {
    let place = OAuthHome::usual();
    let fault = CallbackFault::MissingIssuer;
    place.server.set_callback_fault(Some(fault));
    place.log_in().failed(&["`iss`", &place.server.issuer()]);
    nothing_happened(&place);
}

#[test]
fn an_issuer_nobody_promised_is_checked_too() {
    let setup = AuthorizationSetup::with(|setup| setup.issuer_parameter = false);
    let place = OAuthHome::new(setup, Resource::default());
    let fault = CallbackFault::WrongIssuer("https://other.example".to_owned());
    place.server.set_callback_fault(Some(fault));
    place.log_in().failed(&["https://other.example"]);
    nothing_happened(&place);
    place.server.set_callback_fault(None);
    place.log_in().ok();
}

#[test]
fn an_error_of_the_provider_is_shown_but_its_markup_does_nothing() {
    let place = OAuthHome::usual();
    let text = "<script>alert('x')</script><img src=x onerror=alert(1)>\u{1b}[2J";
    let fault = CallbackFault::Refused(text.to_owned());
    place.server.set_callback_fault(Some(fault));
    let login = place.log_in().failed(&["access_denied"]);
    let page = &login.page.text;
    assert!(
        !page.contains("<script>") && !page.contains("<img"),
        "{page}"
    );
    assert!(page.contains("&lt;script&gt;"), "{page}");
    // Nor does it clear the screen.
    assert!(!login.screen.contains("\u{1b}[2J"), "{:?}", login.screen);
    nothing_happened(&place);
}
