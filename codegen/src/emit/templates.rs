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
    "wgmma/body.ptx" = "wgmma/body",
    "wgmma/prologue.ptx" = "wgmma/prologue",
    "wgmma/cluster_rank.ptx" = "wgmma/cluster_rank",
    "wgmma/producer.ptx" = "wgmma/producer",
    "wgmma/consumer.ptx" = "wgmma/consumer",
    "wgmma/consumer_deferred.ptx" = "wgmma/consumer_deferred",
    "wgmma/consumer_immediate.ptx" = "wgmma/consumer_immediate",
    "wgmma/tile_begin.ptx" = "wgmma/tile_begin",
    "wgmma/finish_stage.ptx" = "wgmma/finish_stage",
    "wgmma/cycle.ptx" = "wgmma/cycle",
    "wgmma/store_pass.ptx" = "wgmma/store_pass",
    "wgmma/step.ptx" = "wgmma/step",
    "wgmma/staging_16_row.ptx" = "wgmma/staging_16_row",
    "wgmma/unfold_rows.ptx" = "wgmma/unfold_rows",
    "wgmma/staging_16_col.ptx" = "wgmma/staging_16_col",
    "wgmma/staging_32_row.ptx" = "wgmma/staging_32_row",
    "wgmma/staging_32_col.ptx" = "wgmma/staging_32_col",
    "wgmma/finish_tile.ptx" = "wgmma/finish_tile",
    "wgmma/multiply.ptx" = "wgmma/multiply",
    "wgmma/multiply_promoted.ptx" = "wgmma/multiply_promoted",
    "wgmma/read_factors.ptx" = "wgmma/read_factors",
    "wgmma/map_b_last.ptx" = "wgmma/map_b_last",
    "wgmma/maps.ptx" = "wgmma/maps",
    "wgmma/prefetch_maps.ptx" = "wgmma/prefetch_maps",
    "wgmma/no_problem.ptx" = "wgmma/no_problem",
    "wgmma/block_numbers.ptx" = "wgmma/block_numbers",
    "wgmma/block_numbers_ahead.ptx" = "wgmma/block_numbers_ahead",
    "wgmma/factor_pointers.ptx" = "wgmma/factor_pointers",
    "wgmma/load_factors.ptx" = "wgmma/load_factors",
    "wgmma/store_factors.ptx" = "wgmma/store_factors",
    "wgmma/scale_tensor.ptx" = "wgmma/scale_tensor",
    "wgmma/scale_row_col.ptx" = "wgmma/scale_row_col",
    "wgmma/scale_setup_tensor.ptx" = "wgmma/scale_setup_tensor",
    "wgmma/scale_setup_row_col.ptx" = "wgmma/scale_setup_row_col",
    "wgmma/scale_unfold_rows.ptx" = "wgmma/scale_unfold_rows",
    "wgmma/scale_setup_block.ptx" = "wgmma/scale_setup_block",
    "wgmma/staging_8_row.ptx" = "wgmma/staging_8_row",
    "wgmma/staging_8_col.ptx" = "wgmma/staging_8_col",
    "wgmma/fused_setup.ptx" = "wgmma/fused_setup",
    "wgmma/fused_load_rows.ptx" = "wgmma/fused_load_rows",
    "wgmma/fused_row_index.ptx" = "wgmma/fused_row_index",
    "wgmma/fused_begin.ptx" = "wgmma/fused_begin",
    "wgmma/fused_pair.ptx" = "wgmma/fused_pair",
    "wgmma/fused_end.ptx" = "wgmma/fused_end",
    "wgmma/fused_red.ptx" = "wgmma/fused_red",
    "wgmma/fused_request.ptx" = "wgmma/fused_request",
    "wgmma/store_pass_with_tile.ptx" = "wgmma/store_pass_with_tile",
    "wgmma/exit.ptx" = "wgmma/exit",
    "swapped/body.ptx" = "swapped/body",
    "swapped/prologue.ptx" = "swapped/prologue",
    "swapped/producer.ptx" = "swapped/producer",
    "swapped/fetch.ptx" = "swapped/fetch",
    "swapped/begin_fill.ptx" = "swapped/begin_fill",
    "swapped/end_fill.ptx" = "swapped/end_fill",
    "swapped/fill_slabs.ptx" = "swapped/fill_slabs",
    "swapped/fill_blocks.ptx" = "swapped/fill_blocks",
    "swapped/consumer.ptx" = "swapped/consumer",
    "swapped/staging_columns_16.ptx" = "swapped/staging_columns_16",
    "swapped/staging_rows_16.ptx" = "swapped/staging_rows_16",
    "swapped/staging_columns_32.ptx" = "swapped/staging_columns_32",
    "swapped/staging_rows_32.ptx" = "swapped/staging_rows_32",
    "swapped/store_pass.ptx" = "swapped/store_pass",
    "swapped/store_boxes.ptx" = "swapped/store_boxes",
    "swapped/fused_setup.ptx" = "swapped/fused_setup",
    "swapped/fused_request.ptx" = "swapped/fused_request",
    "swapped/fused_begin.ptx" = "swapped/fused_begin",
    "swapped/fused_group.ptx" = "swapped/fused_group",
    "swapped/fused_strip.ptx" = "swapped/fused_strip",
    "swapped/fused_totals.ptx" = "swapped/fused_totals",
    "swapped/store_pass_with_tile.ptx" = "swapped/store_pass_with_tile",
    "swapped/exit.ptx" = "swapped/exit",
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
    "sdd/body.ptx" = "sdd/body",
    "sdd/consumer.ptx" = "sdd/consumer",
    "sdd/consumer_deferred.ptx" = "sdd/consumer_deferred",
    "sdd/consumer_immediate.ptx" = "sdd/consumer_immediate",
    "sdd/cycle.ptx" = "sdd/cycle",
    "sdd/exchange.ptx" = "sdd/exchange",
    "sdd/finish_stage.ptx" = "sdd/finish_stage",
    "sdd/fused_barrier.ptx" = "sdd/fused_barrier",
    "sdd/fused_begin.ptx" = "sdd/fused_begin",
    "sdd/fused_end.ptx" = "sdd/fused_end",
    "sdd/fused_request.ptx" = "sdd/fused_request",
    "sdd/fused_setup.ptx" = "sdd/fused_setup",
    "sdd/fused_strip.ptx" = "sdd/fused_strip",
    "sdd/next_item.ptx" = "sdd/next_item",
    "sdd/next_tile.ptx" = "sdd/next_tile",
    "sdd/producer.ptx" = "sdd/producer",
    "sdd/prologue.ptx" = "sdd/prologue",
    "sdd/step.ptx" = "sdd/step",
    "sdd/store_pass.ptx" = "sdd/store_pass",
    "sdd/store_pass_with_tile.ptx" = "sdd/store_pass_with_tile",
    "sdd/stores.ptx" = "sdd/stores",
    "sdd/tile_begin.ptx" = "sdd/tile_begin",
    "sdd/tile_done.ptx" = "sdd/tile_done",
    "sdd/tile_end.ptx" = "sdd/tile_end",
    "sdd/workspace.ptx" = "sdd/workspace",
    "sdd/walk_deferred.ptx" = "sdd/walk_deferred",
    "sdd/walk_immediate.ptx" = "sdd/walk_immediate",
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
pub(super) fn render(template: &str, context: &impl Serialize) -> String {
    let context = tera::Context::from_serialize(context).expect("the context is a struct of plain data");
    engine().render(template, &context).expect("every plan renders")
}
