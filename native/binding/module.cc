// The module cdec.core._native: the table of what Python may call. A new function is a row here.
#include "calls.h"

namespace binding {

template <>
struct Fields<cdec_trie>
    : FieldList<cdec_trie, &cdec_trie::token, &cdec_trie::link, &cdec_trie::degree, &cdec_trie::row,
                &cdec_trie::row_count, &cdec_trie::tokens, &cdec_trie::row_offsets,
                &cdec_trie::dense_nodes, &cdec_trie::dense_masks, &cdec_trie::end_ids,
                &cdec_trie::kept, &cdec_trie::kept_rank, &cdec_trie::hot_masks,
                &cdec_trie::hot_ready, &cdec_trie::width, &cdec_trie::ends_itself> {
  static constexpr const char *kName = "trie";
};

template <>
struct Fields<cdec_nodes>
    : FieldList<cdec_nodes, &cdec_nodes::token, &cdec_nodes::link, &cdec_nodes::degree,
                &cdec_nodes::first_row, &cdec_nodes::row_count> {
  static constexpr const char *kName = "nodes";
};

}  // namespace binding

#define ROW(name, signature) \
  {#name, &binding::call<cdec_##name, #name, signature>, METH_FASTCALL, signature}
#define STRUCT(name) {"hold_" #name, &binding::hold<cdec_##name>, METH_FASTCALL, #name}

static PyMethodDef table[] = {
    STRUCT(trie),
    ROW(trie_advance, "trie states:n token_ids:n out:n"),
    ROW(trie_check, "trie states:n token_ids:n,m out:n,m"),
    ROW(trie_complete, "trie states:n out:n"),
    ROW(trie_fill_mask, "trie states:n mask:n,w"),
    ROW(trie_count_allowed, "trie states:n offsets:n+1"),
    ROW(trie_fill_allowed, "trie states:n offsets:n+1 ids:k"),
    ROW(trie_forced, "trie states:n out:n"),
    ROW(completions_fold, "trie scores:v ends:v best:n choice:n"),
    ROW(completions_totals, "trie scores:v ends:v best:k states:n out:n"),
    ROW(completions_paths, "trie choice:k states:n out:n,m"),
    ROW(common_prefixes, "tokens:t row_offsets:r+1 shared:r"),
    ROW(count_nodes, "shared:r"),
    ROW(fill_nodes, "tokens:t row_offsets:r+1 shared:r nodes"),
    ROW(fill_dense_masks, "nodes dense_nodes:d masks:d,w"),
    ROW(hash_texts, "data:b offsets:n+1 hashes:n"),
    ROW(row_spells, "tokens:t start stop flat:b byte_offsets:v text:k"),
    ROW(text_offsets, "data:b characters:n offsets:n+1"),
    ROW(find_blank, "data:b offsets:n+1 blank:n"),
    ROW(check_rows,
        "tokens:t row_offsets:n+1 data:b offsets:n+1 head:h empty_head:e tail:s flat:f byte_offsets:v "
        "verdicts:n"),
    ROW(spelled_offsets, "tokens:t row_offsets:n+1 byte_offsets:v verdicts:n offsets:n+1"),
    ROW(spell_rows, "tokens:t row_offsets:n+1 flat:f byte_offsets:v offsets:n+1 data:b"),
    ROW(mark_distinct, "tokens:t offsets:m order:n first:n"),
    ROW(gather_offsets, "offsets:m picked:n result:n+1"),
    ROW(gather_bytes, "values:v offsets:m picked:n result:r"),
    ROW(gather_i32, "values:v offsets:m picked:n result:r"),
    ROW(gather_i64, "values:v offsets:m picked:n result:r"),
    ROW(shared_prefix, "tokens:t offsets:m"),
    ROW(first_keys, "tokens:t offsets:n+1 depth bits keys:n"),
    ROW(next_keys, "tokens:t offsets:n+1 order:n starts:g stops:g depth bits keys:n"),
    ROW(equal_runs, "keys:n starts:g stops:g bits run_starts:m run_stops:m"),
    ROW(sort_groups, "tokens:t offsets:n+1 order:n starts:g stops:g depth"),
    ROW(merge_runs, "tokens:t offsets:n+1 run_offsets:k order:n"),
    ROW(list_bits, "mask:n,w offsets:n+1 ids:k"),
    ROW(find_only, "mask:n,w end_ids:e out:n"),
    ROW(intern_pairs, "left:n right:n table:t lefts:m rights:m used out:n"),
    ROW(fill_pairs, "table:t lefts:m rights:m used"),
    ROW(byte_trie_size, "data:b starts:v ids:n shared:n+1"),
    ROW(byte_trie_fill,
        "data:b starts:v ids:n shared:n+1 open_nodes:o node_byte:k depth:k skip:k token_offsets:k+1"),
    {nullptr, nullptr, 0, nullptr},
};

static int fill(PyObject *module) {
  return PyModule_AddStringConstant(module, "sources", CDEC_SOURCES);
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, reinterpret_cast<void *>(&fill)}, {0, nullptr}};

static PyModuleDef definition = {
    {1, nullptr}, nullptr, 0, nullptr, "_native", "cdec's compiled loops: native/include/cdec_native.h.",
    0, table, slots, nullptr, nullptr, nullptr,
};

PYTHON_INIT PyObject *PyInit__native() { return PyModuleDef_Init(&definition); }
