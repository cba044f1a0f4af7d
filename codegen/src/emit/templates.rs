//! The templates, compiled in, and the two renderings: the body first, then the frame that declares its registers.

use std::sync::OnceLock;

use tera::{Delimiters, Tera};

use super::context::Context;
use super::registers;

/// PTX is full of braces after which a percent sign follows, so blocks are written `<% %>` and comments `<# #>`.
fn engine() -> &'static Tera {
    static ENGINE: OnceLock<Tera> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let mut tera = Tera::new();
        let delimiters = Delimiters {
            block_start: "<%".into(),
            block_end: "%>".into(),
            comment_start: "<#".into(),
            comment_end: "#>".into(),
            ..Delimiters::default()
        };
        tera.set_delimiters(delimiters).expect("the delimiters are two bytes each and distinct");
        tera.add_raw_templates(TEMPLATES.iter().copied()).expect("the compiled-in templates parse");
        tera
    })
}

macro_rules! templates {
    ($($name:literal = $path:literal),* $(,)?) => {
        const TEMPLATES: &[(&str, &str)] = &[$(($name, include_str!(concat!("../../templates/", $path, ".ptx.tera")))),*];
    };
}

templates! {
    "kernel.ptx" = "kernel",
    "body.ptx" = "body",
    "prologue.ptx" = "sections/prologue",
    "cluster_rank.ptx" = "sections/cluster_rank",
    "producer.ptx" = "sections/producer",
    "consumer.ptx" = "sections/consumer",
    "consumer_deferred.ptx" = "sections/consumer_deferred",
    "consumer_immediate.ptx" = "sections/consumer_immediate",
    "tile_begin.ptx" = "sections/tile_begin",
    "finish_stage.ptx" = "sections/finish_stage",
    "cycle.ptx" = "sections/cycle",
    "store_pass.ptx" = "sections/store_pass",
    "step.ptx" = "sections/step",
    "staging_16_row.ptx" = "sections/staging_16_row",
    "unfold_rows.ptx" = "sections/unfold_rows",
    "staging_16_col.ptx" = "sections/staging_16_col",
    "staging_32_row.ptx" = "sections/staging_32_row",
    "staging_32_col.ptx" = "sections/staging_32_col",
    "exit.ptx" = "sections/exit",
}

/// The kernel's text. A template that names something the context lacks is a bug of this crate, which the test
/// over the matrix of specs finds: rendering is total for plans.
pub(super) fn render(context: &Context) -> String {
    let mut tera_context = tera::Context::from_serialize(context).expect("the context is a struct of plain data");
    let body = engine().render("body.ptx", &tera_context).expect("every plan renders");
    tera_context.insert("registers", &registers::declarations(&body));
    tera_context.insert("body", &body);
    engine().render("kernel.ptx", &tera_context).expect("every plan renders")
}
