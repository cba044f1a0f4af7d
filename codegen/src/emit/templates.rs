//! The templates, compiled in.

use std::sync::OnceLock;

use serde::Serialize;
use tera::{Delimiters, Tera};

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
    ($($name:literal),* $(,)?) => {
        const TEMPLATES: &[(&str, &str)] =
            &[$((concat!($name, ".ptx"), include_str!(concat!("../../templates/", $name, ".ptx.tera")))),*];
    };
}

templates! {
    "kernel",
    "hopper/fused_pair",
    "hopper/fused_red",
    "hopper/fused_rows",
    "hopper/identity",
    "hopper/load",
    "hopper/mainloop",
    "hopper/next_stage",
    "hopper/no_problem",
    "hopper/prepare_ring",
    "hopper/request_operand",
    "hopper/split_k",
    "hopper/stage",
    "hopper/store_boxes",
    "hopper/store_rows",
    "hopper/store_subtile",
    "hopper/wait_empty",
    "hopper/workspace",
    "hopper/write",
    "attention/advance",
    "attention/advance_query",
    "attention/body",
    "attention/bound",
    "attention/bound_of_run",
    "attention/bound_of_two",
    "attention/consumer",
    "attention/exchange",
    "attention/first_steps",
    "attention/give_back",
    "attention/load",
    "attention/next_step",
    "attention/output_issue",
    "attention/pack",
    "attention/producer",
    "attention/prologue",
    "attention/release",
    "attention/scores",
    "attention/scores_issue",
    "attention/scores_of_run",
    "attention/scores_of_two",
    "attention/skip_values",
    "attention/softmax",
    "attention/step_done",
    "attention/store",
    "attention/wait",
    "block_rows/body",
    "block_rows/consumer",
    "block_rows/exit",
    "block_rows/finish_tile",
    "block_rows/first_block",
    "block_rows/first_work",
    "block_rows/fused_begin",
    "block_rows/fused_end",
    "block_rows/fused_load_rows",
    "block_rows/fused_row_index",
    "block_rows/next_work_tile",
    "block_rows/overlapped",
    "block_rows/packed_consumer",
    "block_rows/packed_first_work",
    "block_rows/packed_producer",
    "block_rows/packed_sums",
    "block_rows/prepare",
    "block_rows/producer",
    "block_rows/prologue",
    "block_rows/result",
    "block_rows/serial",
    "block_rows/staging",
    "block_rows/store_subtile_with_operand",
    "block_rows/tile_begin",
    "block_rows/tile_part",
    "lists/assign",
    "lists/attention_columns",
    "lists/attention_order",
    "lists/attention_ranks",
    "lists/attention_room",
    "lists/attention_steps",
    "lists/attention_tiles",
    "lists/attention_words",
    "lists/check",
    "lists/cost",
    "lists/count_columns",
    "lists/deal",
    "lists/divide",
    "lists/in_order",
    "lists/key",
    "lists/last_group",
    "lists/mask_columns",
    "lists/mask_rows",
    "lists/module",
    "lists/place",
    "lists/rank",
    "lists/scan_columns",
    "lists/scatter_columns",
    "lists/sddmm_rows",
    "lists/sddmm_tiles",
    "lists/sort",
    "lists/swap",
    "lists/write_tile",
    "sampled/body",
    "sampled/consumer",
    "sampled/first_work",
    "sampled/fused_begin",
    "sampled/fused_column_batch",
    "sampled/fused_end",
    "sampled/next_tile",
    "sampled/next_work",
    "sampled/operand_barrier",
    "sampled/overlapped",
    "sampled/prepare",
    "sampled/producer",
    "sampled/prologue",
    "sampled/serial",
    "sampled/store_subtile_with_operand",
    "sampled/tile_begin",
    "sampled/tile_done",
    "sampled/tile_end",
    "swap_ab/batch",
    "swap_ab/body",
    "swap_ab/consumer",
    "swap_ab/epilogue",
    "swap_ab/first_work",
    "swap_ab/fused",
    "swap_ab/mainloop",
    "swap_ab/prepare",
    "swap_ab/producer",
    "swap_ab/prologue",
    "swap_ab/staging",
    "warp/body",
    "warp/components",
    "warp/epilogue",
    "warp/fetch",
    "warp/iterator",
    "warp/line_ends",
    "warp/load_fragments",
    "warp/prologue",
    "warp/stage",
    "warp/stage_boundary",
    "warp/store_stage",
    "scalar/atomic",
    "scalar/components",
    "scalar/next_tile",
    "scalar/prologue",
    "scalar/register",
    "scalar/tile",
    "scalar/vector",
    "scalar/vector_components",
}

/// Renders one template. A template that names something the context lacks is a bug of this crate, which the test
/// over the matrix of specs finds: rendering is total for plans.
pub(crate) fn render(template: &str, context: &impl Serialize) -> String {
    let context = tera::Context::from_serialize(context).expect("the context is a struct of plain data");
    engine().render(template, &context).expect("every plan renders")
}
