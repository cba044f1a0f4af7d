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
    ($($name:literal = $path:literal),* $(,)?) => {
        const TEMPLATES: &[(&str, &str)] = &[$(($name, include_str!(concat!("../../templates/", $path, ".ptx.tera")))),*];
    };
}

templates! {
    "kernel.ptx" = "kernel",
    "block_rows/body.ptx" = "block_rows/body",
    "block_rows/prologue.ptx" = "block_rows/prologue",
    "block_rows/cluster_rank.ptx" = "block_rows/cluster_rank",
    "block_rows/producer.ptx" = "block_rows/producer",
    "block_rows/consumer.ptx" = "block_rows/consumer",
    "block_rows/consumer_deferred.ptx" = "block_rows/consumer_deferred",
    "block_rows/consumer_immediate.ptx" = "block_rows/consumer_immediate",
    "block_rows/tile_begin.ptx" = "block_rows/tile_begin",
    "block_rows/finish_stage.ptx" = "block_rows/finish_stage",
    "block_rows/cycle.ptx" = "block_rows/cycle",
    "block_rows/store_pass.ptx" = "block_rows/store_pass",
    "block_rows/step.ptx" = "block_rows/step",
    "block_rows/staging_16_row.ptx" = "block_rows/staging_16_row",
    "block_rows/unfold_rows.ptx" = "block_rows/unfold_rows",
    "block_rows/staging_16_col.ptx" = "block_rows/staging_16_col",
    "block_rows/staging_32_row.ptx" = "block_rows/staging_32_row",
    "block_rows/staging_32_col.ptx" = "block_rows/staging_32_col",
    "block_rows/finish_tile.ptx" = "block_rows/finish_tile",
    "block_rows/multiply.ptx" = "block_rows/multiply",
    "block_rows/multiply_promoted.ptx" = "block_rows/multiply_promoted",
    "block_rows/read_factors.ptx" = "block_rows/read_factors",
    "block_rows/map_b_last.ptx" = "block_rows/map_b_last",
    "block_rows/maps.ptx" = "block_rows/maps",
    "block_rows/prefetch_maps.ptx" = "block_rows/prefetch_maps",
    "hopper/no_problem.ptx" = "hopper/no_problem",
    "block_rows/block_numbers.ptx" = "block_rows/block_numbers",
    "block_rows/block_numbers_ahead.ptx" = "block_rows/block_numbers_ahead",
    "block_rows/factor_pointers.ptx" = "block_rows/factor_pointers",
    "block_rows/load_factors.ptx" = "block_rows/load_factors",
    "block_rows/store_factors.ptx" = "block_rows/store_factors",
    "block_rows/scale_tensor.ptx" = "block_rows/scale_tensor",
    "block_rows/scale_row_col.ptx" = "block_rows/scale_row_col",
    "block_rows/scale_setup_tensor.ptx" = "block_rows/scale_setup_tensor",
    "block_rows/scale_setup_row_col.ptx" = "block_rows/scale_setup_row_col",
    "block_rows/scale_unfold_rows.ptx" = "block_rows/scale_unfold_rows",
    "block_rows/scale_setup_block.ptx" = "block_rows/scale_setup_block",
    "block_rows/staging_8_row.ptx" = "block_rows/staging_8_row",
    "block_rows/staging_8_col.ptx" = "block_rows/staging_8_col",
    "block_rows/fused_setup.ptx" = "block_rows/fused_setup",
    "block_rows/fused_load_rows.ptx" = "block_rows/fused_load_rows",
    "block_rows/fused_row_index.ptx" = "block_rows/fused_row_index",
    "block_rows/fused_begin.ptx" = "block_rows/fused_begin",
    "hopper/fused_pair.ptx" = "hopper/fused_pair",
    "block_rows/fused_end.ptx" = "block_rows/fused_end",
    "hopper/fused_red.ptx" = "hopper/fused_red",
    "block_rows/fused_request.ptx" = "block_rows/fused_request",
    "block_rows/store_pass_with_tile.ptx" = "block_rows/store_pass_with_tile",
    "block_rows/exit.ptx" = "block_rows/exit",
    "swap_ab/body.ptx" = "swap_ab/body",
    "swap_ab/prologue.ptx" = "swap_ab/prologue",
    "swap_ab/producer.ptx" = "swap_ab/producer",
    "swap_ab/consumer.ptx" = "swap_ab/consumer",
    "swap_ab/staging.ptx" = "swap_ab/staging",
    "swap_ab/mainloop.ptx" = "swap_ab/mainloop",
    "swap_ab/epilogue.ptx" = "swap_ab/epilogue",
    "swap_ab/fused.ptx" = "swap_ab/fused",
    "swap_ab/batch.ptx" = "swap_ab/batch",
    "warp/advance.ptx" = "warp/advance",
    "warp/body.ptx" = "warp/body",
    "warp/copy_b.ptx" = "warp/copy_b",
    "warp/copy_b_along_k.ptx" = "warp/copy_b_along_k",
    "warp/epilogue.ptx" = "warp/epilogue",
    "warp/fetch.ptx" = "warp/fetch",
    "warp/fetch_async.ptx" = "warp/fetch_async",
    "warp/fetch_registers.ptx" = "warp/fetch_registers",
    "warp/fill_async.ptx" = "warp/fill_async",
    "warp/fill_registers.ptx" = "warp/fill_registers",
    "warp/find.ptx" = "warp/find",
    "warp/find_block.ptx" = "warp/find_block",
    "warp/first_fragments.ptx" = "warp/first_fragments",
    "warp/keep_stage.ptx" = "warp/keep_stage",
    "warp/load_fragments.ptx" = "warp/load_fragments",
    "warp/mask_b.ptx" = "warp/mask_b",
    "warp/next_step.ptx" = "warp/next_step",
    "warp/prologue.ptx" = "warp/prologue",
    "warp/rest.ptx" = "warp/rest",
    "warp/seam.ptx" = "warp/seam",
    "warp/seam_async.ptx" = "warp/seam_async",
    "warp/seam_registers.ptx" = "warp/seam_registers",
    "warp/slab.ptx" = "warp/slab",
    "warp/stage.ptx" = "warp/stage",
    "warp/tiles.ptx" = "warp/tiles",
    "sampled/body.ptx" = "sampled/body",
    "sampled/consumer.ptx" = "sampled/consumer",
    "sampled/consumer_deferred.ptx" = "sampled/consumer_deferred",
    "sampled/consumer_immediate.ptx" = "sampled/consumer_immediate",
    "sampled/cycle.ptx" = "sampled/cycle",
    "sampled/exchange.ptx" = "sampled/exchange",
    "sampled/finish_stage.ptx" = "sampled/finish_stage",
    "sampled/fused_barrier.ptx" = "sampled/fused_barrier",
    "sampled/fused_begin.ptx" = "sampled/fused_begin",
    "sampled/fused_end.ptx" = "sampled/fused_end",
    "sampled/fused_request.ptx" = "sampled/fused_request",
    "sampled/fused_setup.ptx" = "sampled/fused_setup",
    "sampled/fused_strip.ptx" = "sampled/fused_strip",
    "sampled/next_item.ptx" = "sampled/next_item",
    "sampled/next_tile.ptx" = "sampled/next_tile",
    "sampled/producer.ptx" = "sampled/producer",
    "sampled/prologue.ptx" = "sampled/prologue",
    "sampled/step.ptx" = "sampled/step",
    "sampled/store_pass.ptx" = "sampled/store_pass",
    "sampled/store_pass_with_tile.ptx" = "sampled/store_pass_with_tile",
    "sampled/stores.ptx" = "sampled/stores",
    "sampled/tile_begin.ptx" = "sampled/tile_begin",
    "sampled/tile_done.ptx" = "sampled/tile_done",
    "sampled/tile_end.ptx" = "sampled/tile_end",
    "sampled/workspace.ptx" = "sampled/workspace",
    "sampled/walk_deferred.ptx" = "sampled/walk_deferred",
    "sampled/walk_immediate.ptx" = "sampled/walk_immediate",
    "scalar/operands.ptx" = "scalar/operands",
    "scalar/prologue.ptx" = "scalar/prologue",
    "scalar/place.ptx" = "scalar/place",
    "scalar/tile_begin.ptx" = "scalar/tile_begin",
    "scalar/tile_end.ptx" = "scalar/tile_end",
    "scalar/atomic.ptx" = "scalar/atomic",
    "scalar/register.ptx" = "scalar/register",
    "scalar/vector.ptx" = "scalar/vector",
    "scalar/vector_place.ptx" = "scalar/vector_place",
    "scalar/vector_block.ptx" = "scalar/vector_block",
    "scalar/vector_fetch_a.ptx" = "scalar/vector_fetch_a",
    "scalar/vector_fetch_b.ptx" = "scalar/vector_fetch_b",
    "scalar/vector_write_a.ptx" = "scalar/vector_write_a",
    "scalar/vector_write_b.ptx" = "scalar/vector_write_b",
    "scalar/vector_multiply.ptx" = "scalar/vector_multiply",
    "scalar/vector_flip.ptx" = "scalar/vector_flip",
}

/// Renders one template. A template that names something the context lacks is a bug of this crate, which the test
/// over the matrix of specs finds: rendering is total for plans.
pub(crate) fn render(template: &str, context: &impl Serialize) -> String {
    let context = tera::Context::from_serialize(context).expect("the context is a struct of plain data");
    engine().render(template, &context).expect("every plan renders")
}
