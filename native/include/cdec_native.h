/* cdec's compiled loops: the whole surface of the library, in plain C.
 *
 * Arrays are spans: an address and lengths, owned by the caller, who keeps them for the time of the
 * call (of a struct of spans: as long as the struct is used). `_out` marks spans that are written.
 * Rows (`_rows`) are C-contiguous, [rows, width]. Names of lengths in comments are equal where they
 * have the same letter; the binding checks that, a caller in C sees to it.
 *
 * Functions return int64: what the comment says, or CDEC_NO_MEMORY. None throws, ends the process,
 * keeps an address, or reads outside of its spans, whatever they hold: an index that leads outside
 * means "nothing here", unless the comment says that the caller has checked it.
 * Functions without state may run in several threads at once.
 */
#ifndef CDEC_NATIVE_H
#define CDEC_NATIVE_H

#include <stdint.h>

#if defined(_WIN32)
#define CDEC_API __declspec(dllexport)
#else
#define CDEC_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
#define CDEC_INDEX(type) \
  type &operator[](int64_t i) const { return at[i]; }
#define CDEC_ROW(type) \
  type *operator[](int64_t i) const { return at + i * width; }
extern "C" {
#else
#define CDEC_INDEX(type)
#define CDEC_ROW(type)
#endif

#define CDEC_SPAN(name, type) \
  typedef struct name {       \
    type *at;                 \
    int64_t size;             \
    CDEC_INDEX(type)        \
  } name
#define CDEC_ROWS(name, type) \
  typedef struct name {       \
    type *at;                 \
    int64_t rows, width;      \
    CDEC_ROW(type)          \
  } name

CDEC_SPAN(cdec_i8_out, int8_t);
CDEC_SPAN(cdec_u8, const uint8_t);
CDEC_SPAN(cdec_u8_out, uint8_t);
CDEC_SPAN(cdec_bool, const uint8_t); /* 0 or 1 */
CDEC_SPAN(cdec_bool_out, uint8_t);
CDEC_SPAN(cdec_i32, const int32_t);
CDEC_SPAN(cdec_i32_out, int32_t);
CDEC_SPAN(cdec_u64, const uint64_t);
CDEC_SPAN(cdec_u64_out, uint64_t);
CDEC_SPAN(cdec_i64, const int64_t);
CDEC_SPAN(cdec_i64_out, int64_t);
CDEC_SPAN(cdec_f64, const double);
CDEC_SPAN(cdec_f64_out, double);
CDEC_ROWS(cdec_u32_rows, const uint32_t);
CDEC_ROWS(cdec_u32_rows_out, uint32_t);
CDEC_ROWS(cdec_i64_rows, const int64_t);
CDEC_ROWS(cdec_i64_rows_out, int64_t);
CDEC_ROWS(cdec_bool_rows_out, uint8_t);

#define CDEC_NO_MEMORY INT64_MIN

/* ---- sets: the trie of a set ------------------------------------------------------------------
 *
 * States: 0 <= s < 2^32 is an inner node; from 2^32 up a position in one row's tail,
 * (row + 1) << 32 | depth; CDEC_DEAD and CDEC_DONE. Leaves are never states: a step onto one gives
 * the tail state, so equal prefixes have equal states.
 */
#define CDEC_END (-1)  /* token of a sentinel child: a member may end at its parent */
#define CDEC_DEAD (-1) /* state: no member begins so */
#define CDEC_DONE (-2) /* state: the member has ended */

/* The arrays of a set (cdec.core.sets.trie), bound to a vocabulary and a filter of rows. They may be
 * views of a damaged file. N nodes, R rows, T tokens, D dense nodes, K = ceil(R / 64). */
typedef struct cdec_trie {
  cdec_i32 token;       /* [N] last token of the node's prefix; CDEC_END: a member ends above */
  cdec_i64 link;        /* [N] first child; of a leaf the place in `tokens` where its tail begins */
  cdec_i32 degree;      /* [N] children, contiguous and sorted by token; 0 for a leaf */
  cdec_i32 row;         /* [N] first row of the subtree */
  cdec_i32 row_count;   /* [N] rows of the subtree */
  cdec_i32 tokens;      /* [T] the rows one after another */
  cdec_i64 row_offsets; /* [R + 1] */
  cdec_i32 dense_nodes; /* [D] nodes of many children, ascending */
  cdec_u32_rows dense_masks; /* [D, words] their children as packed masks, CDEC_END left out */
  cdec_i64 end_ids;          /* [E] sorted end-of-sequence ids */
  cdec_u64 kept;             /* [K] bitmap of the rows that a filter keeps; empty without one */
  cdec_i64 kept_rank;        /* [K] kept rows before each word of `kept` */
  cdec_u32_rows_out hot_masks; /* [D, words] filtered dense masks, written on first use */
  cdec_u8_out hot_ready;       /* [D] whether `hot_masks` holds the node's mask */
  int64_t width;               /* logits width: ids at or above it are never allowed */
  int64_t ends_itself;         /* whether the last token of a row gives CDEC_DONE */
} cdec_trie;

/* Write the states after `token_ids` from `states` [n] to `out` [n]; O(log degree) each. */
CDEC_API int64_t cdec_trie_advance(const cdec_trie *trie, cdec_i64 states, cdec_i64 token_ids,
                                   cdec_i64_out out);
/* Say of proposed tokens [n, m] in `out` [n, m] what is allowed; O(log degree) each. */
CDEC_API int64_t cdec_trie_check(const cdec_trie *trie, cdec_i64 states, cdec_i64_rows token_ids,
                                 cdec_bool_rows_out out);
/* Say in `out` [n] where the text so far is a member, CDEC_DONE included. */
CDEC_API int64_t cdec_trie_complete(const cdec_trie *trie, cdec_i64 states, cdec_bool_out out);
/* Overwrite `mask` [n, words] with the exact masks. Words are written once, and one bit a child of
 * nodes with few children; a dense node's mask is copied, under a filter computed on first use. */
CDEC_API int64_t cdec_trie_fill_mask(const cdec_trie *trie, cdec_i64 states,
                                     cdec_u32_rows_out mask);
/* Write the running totals of allowed tokens to `offsets` [n + 1]. */
CDEC_API int64_t cdec_trie_count_allowed(const cdec_trie *trie, cdec_i64 states,
                                         cdec_i64_out offsets);
/* Write the allowed tokens, ascending, to `ids`; `offsets` [n + 1] as cdec_trie_count_allowed gave
 * them of the same trie and states, so that ids has the last of them. */
CDEC_API int64_t cdec_trie_fill_allowed(const cdec_trie *trie, cdec_i64 states, cdec_i64 offsets,
                                        cdec_i32_out ids);
/* Write the only possible next token to `out` [n], CDEC_END where there is none or a choice; the end
 * event counts once, as its first id. */
CDEC_API int64_t cdec_trie_forced(const cdec_trie *trie, cdec_i64 states, cdec_i32_out out);

/* Write the score of the best completion behind each node to `best` [N], -inf where a filter keeps
 * nothing, and the child that it goes on by to `choice` [N], -1 at leaves. Scores of tokens and of
 * ends after a token: `scores`, `ends` [V]. One pass, O(N + T). */
CDEC_API int64_t cdec_completions_fold(const cdec_trie *trie, cdec_f64 scores, cdec_f64 ends,
                                       cdec_f64_out best, cdec_i64_out choice);
/* Write the best score of what follows each state to `out` [n]; 0 at the end. */
CDEC_API int64_t cdec_completions_totals(const cdec_trie *trie, cdec_f64 scores, cdec_f64 ends,
                                         cdec_f64 best, cdec_i64 states, cdec_f64_out out);
/* Write the tokens of the best completion of each state to `out` [n, most], -1 after the last. */
CDEC_API int64_t cdec_completions_paths(const cdec_trie *trie, cdec_i64 choice, cdec_i64 states,
                                        cdec_i64_rows_out out);

/* ---- sets: building. Arrays that the compiler made itself: offsets are checked by the caller. --- */

/* Nodes of a trie under construction, N each, as in cdec_trie. */
typedef struct cdec_nodes {
  cdec_i32_out token;
  cdec_i64_out link;
  cdec_i32_out degree;
  cdec_i32_out first_row;
  cdec_i32_out row_count;
} cdec_nodes;

/* Write how many tokens each row shares with the one before to `shared` [r], -1 for the first.
 * Returns the first row that does not come after its predecessor in lexicographic order, or -1. */
CDEC_API int64_t cdec_common_prefixes(cdec_i32 tokens, cdec_i64 row_offsets, cdec_i32_out shared);
/* Return the number of nodes of the trie that is cut at the first unique row. */
CDEC_API int64_t cdec_count_nodes(cdec_i32 shared);
/* Write all nodes, level by level; O(T). */
CDEC_API int64_t cdec_fill_nodes(cdec_i32 tokens, cdec_i64 row_offsets, cdec_i32 shared,
                                 const cdec_nodes *nodes);
/* Set the bits of the children of `dense_nodes` [d] in zeroed `masks` [d, words]. */
CDEC_API int64_t cdec_fill_dense_masks(const cdec_nodes *nodes, cdec_i32 dense_nodes,
                                       cdec_u32_rows_out masks);

/* Hash every text data[offsets[i]:offsets[i + 1]] to `hashes` [n]: FNV-1a, then MurmurHash3's mix. */
CDEC_API int64_t cdec_hash_texts(cdec_u8 data, cdec_i64 offsets, cdec_u64_out hashes);
/* Return 1 where the bytes of tokens[start:stop] are exactly `text`, else 0; the bytes of token t are
 * flat[byte_offsets[t]:byte_offsets[t + 1]]. */
CDEC_API int64_t cdec_row_spells(cdec_i32 tokens, int64_t start, int64_t stop, cdec_u8 flat,
                                 cdec_i64 byte_offsets, cdec_u8 text);

/* Turn lengths in characters [n] into offsets in bytes [n + 1] of UTF-8 texts one after another. */
CDEC_API int64_t cdec_text_offsets(cdec_u8 data, cdec_i64 characters, cdec_i64_out offsets);
/* Mark the texts that hold nothing but ASCII white space, [n]; return how many there are. */
CDEC_API int64_t cdec_find_blank(cdec_u8 data, cdec_i64 offsets, cdec_bool_out blank);

#define CDEC_FINE 0
#define CDEC_NOT_ORDINARY 1
#define CDEC_NOT_THE_TEXT 2
/* Check that every row of tokens consists of ordinary tokens (with bytes) and spells head + text +
 * tail, `empty_head` before an empty text. Writes verdicts [n]; returns how many are not CDEC_FINE. */
CDEC_API int64_t cdec_check_rows(cdec_i32 tokens, cdec_i64 row_offsets, cdec_u8 data,
                                 cdec_i64 offsets, cdec_u8 head, cdec_u8 empty_head, cdec_u8 tail,
                                 cdec_u8 flat, cdec_i64 byte_offsets, cdec_i8_out verdicts);
/* Write where the bytes of each row begin, [n + 1], and verdicts [n]: a row with a token that is not
 * ordinary has none. Returns the bytes of all. */
CDEC_API int64_t cdec_spelled_offsets(cdec_i32 tokens, cdec_i64 row_offsets, cdec_i64 byte_offsets,
                                      cdec_i8_out verdicts, cdec_i64_out offsets);
/* Write the bytes of rows; offsets [n + 1] as cdec_spelled_offsets gave them, data as long as it
 * returned. */
CDEC_API int64_t cdec_spell_rows(cdec_i32 tokens, cdec_i64 row_offsets, cdec_u8 flat,
                                 cdec_i64 byte_offsets, cdec_i64 offsets, cdec_u8_out data);
/* Mark in `first` [n], in sorted order, the first of each run of equal rows; return how many. */
CDEC_API int64_t cdec_mark_distinct(cdec_i32 tokens, cdec_i64 offsets, cdec_i64 order,
                                    cdec_bool_out first);
/* Write the offsets [n + 1] that the picked pieces have one after another. */
CDEC_API int64_t cdec_gather_offsets(cdec_i64 offsets, cdec_i64 picked, cdec_i64_out result);
/* Copy the picked pieces of a flat array one after another; `result` is as long as they are. */
CDEC_API int64_t cdec_gather_bytes(cdec_u8 values, cdec_i64 offsets, cdec_i64 picked,
                                   cdec_u8_out result);
CDEC_API int64_t cdec_gather_i32(cdec_i32 values, cdec_i64 offsets, cdec_i64 picked,
                                 cdec_i32_out result);
CDEC_API int64_t cdec_gather_i64(cdec_i64 values, cdec_i64 offsets, cdec_i64 picked,
                                 cdec_i64_out result);

/* Sorting rows of tokens (cdec.compilers.sets.sort): as many tokens as fit are packed into a 64-bit
 * key of `bits` bits each, token + 1, so that 0 says that the row ends. */

/* Return how many leading tokens all rows have in common. */
CDEC_API int64_t cdec_shared_prefix(cdec_i32 tokens, cdec_i64 offsets);
/* Write the keys of the tokens from `depth` on, [n]. */
CDEC_API int64_t cdec_first_keys(cdec_i32 tokens, cdec_i64 offsets, int64_t depth, int64_t bits,
                                 cdec_u64_out keys);
/* The same for the rows `order` [n] of the groups starts, stops [g] of places. */
CDEC_API int64_t cdec_next_keys(cdec_i32 tokens, cdec_i64 offsets, cdec_i64 order, cdec_i64 starts,
                                cdec_i64 stops, int64_t depth, int64_t bits, cdec_u64_out keys);
/* Find the runs of two and more equal keys within groups [g]; a run of rows that end within their
 * key is left out. Returns how many; they are written as far as the outputs [m] have room. */
CDEC_API int64_t cdec_equal_runs(cdec_u64 keys, cdec_i64 starts, cdec_i64 stops, int64_t bits,
                                 cdec_i64_out run_starts, cdec_i64_out run_stops);
/* Sort the rows of small groups [g] by insertion; they share `depth` tokens. Stable. */
CDEC_API int64_t cdec_sort_groups(cdec_i32 tokens, cdec_i64 offsets, cdec_i64_out order,
                                  cdec_i64 starts, cdec_i64 stops, int64_t depth);
/* Merge sorted runs of rows, run_offsets [k + 1], into `order` [n]: O(n log k), stable. */
CDEC_API int64_t cdec_merge_runs(cdec_i32 tokens, cdec_i64 offsets, cdec_i64 run_offsets,
                                 cdec_i64_out order);

/* ---- common ------------------------------------------------------------------------------------ */

/* Write the set bits of masks [n, words] to `ids`, ascending row by row; offsets [n + 1] are the
 * running totals of the set bits, and ids has the last of them. */
CDEC_API int64_t cdec_list_bits(cdec_u32_rows mask, cdec_i64 offsets, cdec_i32_out ids);
/* Write to `out` [n] the only event of each row, -1 where there is none or a choice; all end_ids
 * together are one event, given as the first that is set. */
CDEC_API int64_t cdec_find_only(cdec_u32_rows mask, cdec_i64 end_ids, cdec_i32_out out);

/* Number pairs of int64 in the order in which they are first seen. `table` [a power of two] holds
 * numbers, -1 where free, and has room for all that is new, as have lefts and rights [m]. Writes the
 * numbers of the pairs left, right [n] to `out` [n]; returns how many pairs there are now. */
CDEC_API int64_t cdec_intern_pairs(cdec_i64 left, cdec_i64 right, cdec_i64_out table,
                                   cdec_i64_out lefts, cdec_i64_out rights, int64_t used,
                                   cdec_i64_out out);
/* Enter all pairs into an empty table. */
CDEC_API int64_t cdec_fill_pairs(cdec_i64_out table, cdec_i64 lefts, cdec_i64 rights, int64_t used);

/* Write how many bytes each of the sorted texts `ids` [n] shares with the one before to `shared`
 * [n + 1], whose last stays 0; return the number of nodes of their byte trie. */
CDEC_API int64_t cdec_byte_trie_size(cdec_u8 data, cdec_i64 starts, cdec_i32 ids,
                                     cdec_i32_out shared);
/* Write the nodes of the trie, in pre-order: byte, depth and end of the subtree [N], and where the
 * texts that end at each begin among `ids` [N + 1]. open_nodes has room for the longest text. */
CDEC_API int64_t cdec_byte_trie_fill(cdec_u8 data, cdec_i64 starts, cdec_i32 ids, cdec_i32 shared,
                                     cdec_i32_out open_nodes, cdec_u8_out node_byte,
                                     cdec_i32_out depth, cdec_i32_out skip,
                                     cdec_i32_out token_offsets);

#ifdef __cplusplus
}
#endif
#endif
