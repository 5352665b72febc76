//! What `#[kernel]` accepts, and what it says of the rest.

#[test]
fn kernel_attribute() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/accepted.rs");
    cases.compile_fail("tests/ui/rejected_*.rs");
}
