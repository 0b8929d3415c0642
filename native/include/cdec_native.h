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

/* Scores of a model, [rows, width], float32 or float64; `stride` elements lie between rows. */
typedef struct cdec_scores {
  const void *at;
  int64_t rows, width, stride, is_double;
} cdec_scores;

CDEC_SPAN(cdec_i8_out, int8_t);
CDEC_SPAN(cdec_u8, const uint8_t);
CDEC_SPAN(cdec_u8_out, uint8_t);
CDEC_SPAN(cdec_bool, const uint8_t); /* 0 or 1 */
CDEC_SPAN(cdec_bool_out, uint8_t);
CDEC_SPAN(cdec_u16, const uint16_t);
CDEC_SPAN(cdec_i32, const int32_t);
CDEC_SPAN(cdec_i32_out, int32_t);
CDEC_SPAN(cdec_u64, const uint64_t);
CDEC_SPAN(cdec_u64_out, uint64_t);
CDEC_SPAN(cdec_i64, const int64_t);
CDEC_SPAN(cdec_i64_out, int64_t);
CDEC_SPAN(cdec_f64, const double);
CDEC_SPAN(cdec_f64_out, double);
CDEC_ROWS(cdec_u8_rows_out, uint8_t);
CDEC_ROWS(cdec_u16_rows_out, uint16_t);
CDEC_ROWS(cdec_i32_rows_out, int32_t);
CDEC_ROWS(cdec_u32_rows, const uint32_t);
CDEC_ROWS(cdec_u32_rows_out, uint32_t);
CDEC_ROWS(cdec_u64_rows, const uint64_t);
CDEC_ROWS(cdec_i32_rows, const int32_t);
CDEC_ROWS(cdec_bool_rows, const uint8_t);
CDEC_ROWS(cdec_i64_rows, const int64_t);
CDEC_ROWS(cdec_i64_rows_out, int64_t);
CDEC_ROWS(cdec_f64_rows, const double);
CDEC_ROWS(cdec_f64_rows_out, double);
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

/* A trie of tokens, as cdec_byte_trie_fill writes it, N nodes in pre-order, with its ids. */
typedef struct cdec_token_trie {
  cdec_u8 node_byte;      /* [N] */
  cdec_i32 depth;         /* [N] from 1 */
  cdec_i32 skip;          /* [N] the first node behind the subtree */
  cdec_i32 token_offsets; /* [N + 1] */
  cdec_i32 token_ids;
} cdec_token_trie;

/* ---- sets: pieces of a document ------------------------------------------------------------------
 *
 * A row is what follows a place where a piece may begin, cut where the longest one ends; rows are
 * sorted. States: depth << 31 | the first row that begins with the bytes so far. N rows, D bytes, V
 * tokens. A column of no elements says that nothing more is asked: rows reach to the next byte 255,
 * which stands behind every document; a piece may end with any character. */
typedef struct cdec_spans {
  cdec_u8 data;          /* [D] the documents */
  cdec_i32 begin;        /* [N] where the row begins */
  cdec_i32 length;       /* [N] its bytes, at least 1; or none */
  cdec_i32 least;        /* [N] the first place where a piece from here may end; or none */
  cdec_bool ends;        /* [D + 1] whether a piece may end before a byte; or none */
  cdec_bool is_ordinary; /* [V] */
  cdec_u8 flat;
  cdec_i64 byte_offsets;      /* [V + 1] the bytes of each token in `flat` */
  cdec_i64 end_ids;           /* sorted */
  cdec_i64 wide_states;       /* [W] states of many rows, sorted */
  cdec_u32_rows wide_masks;   /* [W, words] their masks */
  int64_t width;
} cdec_spans;

/* Sort rows: `until` [d] says where a piece that begins at a byte ends at the farthest, or that none
 * does (-1); where it is empty there is a row from each character to the next byte 255. Writes the
 * first arrays of cdec_spans, as long as there are rows (no `length` where nothing is cut); returns
 * how many. O(D) and 15 bytes of memory a byte, O(D log D) where rows are cut. */
CDEC_API int64_t cdec_spans_sort(cdec_u8 data, cdec_i32 until, cdec_i32_out begin,
                                 cdec_i32_out length);
/* Write the states of most rows, and of at least `rows`, the widest first; the state of all rows is
 * one in any case. Returns how many. */
CDEC_API int64_t cdec_spans_widest(const cdec_spans *spans, int64_t rows, cdec_i64_out states);
/* As of cdec_trie. A byte costs O(log N), one of a run of one row O(1). */
CDEC_API int64_t cdec_spans_advance(const cdec_spans *spans, cdec_i64 states, cdec_i64 token_ids,
                                    cdec_i64_out out);
CDEC_API int64_t cdec_spans_check(const cdec_spans *spans, cdec_i64 states,
                                  cdec_i64_rows token_ids, cdec_bool_rows_out out);
CDEC_API int64_t cdec_spans_complete(const cdec_spans *spans, cdec_i64 states, cdec_bool_out out);
/* Overwrite `mask` [n, words]; `deepest` is the length of the longest token. */
CDEC_API int64_t cdec_spans_fill_mask(const cdec_spans *spans, const cdec_token_trie *trie,
                                      int64_t deepest, cdec_i64 states, cdec_u32_rows_out mask);
/* Follow flat[offsets[i]:offsets[i + 1]] from each state. */
CDEC_API int64_t cdec_spans_advance_bytes(const cdec_spans *spans, cdec_i64 states, cdec_u8 flat,
                                          cdec_i64 offsets, cdec_i64_out out);
/* Write the first row of a state's run and that behind its last to `range` [2]. */
CDEC_API int64_t cdec_spans_rows(const cdec_spans *spans, int64_t state, cdec_i64_out range);

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

/* Sorting rows of tokens (cdec.compilers.sets.rows): as many tokens as fit are packed into a 64-bit
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

/* Write the running totals of the set bits of masks [n, words] to offsets [n + 1]; return the last. */
CDEC_API int64_t cdec_count_bits(cdec_u32_rows mask, cdec_i64_out offsets);
/* Write the set bits of masks [n, words] to `ids`, ascending row by row, where `offsets` says. */
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

/* States below 2^40 with how many tokens are left above. Take them apart, to `inside` [n]; return 1 where
 * for each more are left than `ahead` [a] says of it, which is -1 where nothing is known, else 0. */
CDEC_API int64_t cdec_fitted_split(cdec_i64 states, cdec_i64 ahead, cdec_i64_out inside);
/* Put what is left behind one token of `states` to the states `after` [n] it, unless these are ends. */
CDEC_API int64_t cdec_fitted_join(cdec_i64 states, cdec_i64_out after);

/* Masks and steps of a session's states, kept: at most `most_masks` masks of `words` words, beyond which
 * the oldest are forgotten, and `most_steps` steps, beyond which all are. Threads take turns. */
typedef struct cdec_memo cdec_memo;
CDEC_API cdec_memo *cdec_memo_make(int64_t words, int64_t most_masks, int64_t most_steps);
CDEC_API void cdec_memo_free(cdec_memo *memo);
/* Forget all. */
CDEC_API int64_t cdec_memo_drop(cdec_memo *memo);
/* Write the masks of `states` [n] that are kept, and zeros for CDEC_DEAD and CDEC_DONE; return how many
 * rows that were. The others are left as they are, and listed in `missing`, as far as it has room [k].
 * Returns -1 where masks are of another width. */
CDEC_API int64_t cdec_memo_fill_mask(cdec_memo *memo, cdec_i64 states, cdec_i32_rows_out mask,
                                     cdec_i64_out missing);
/* The same for the states after `tokens` [n]: CDEC_DEAD where the step is not kept. */
CDEC_API int64_t cdec_memo_advance(cdec_memo *memo, cdec_i64 states, cdec_i64 tokens,
                                   cdec_i64_out out, cdec_i64_out missing);
/* Keep masks, and steps, of states [n]; those of no state are left out. */
CDEC_API int64_t cdec_memo_keep_masks(cdec_memo *memo, cdec_i64 states, cdec_i32_rows mask);
CDEC_API int64_t cdec_memo_keep_steps(cdec_memo *memo, cdec_i64 states, cdec_i64 tokens,
                                      cdec_i64 after);
/* Return how many bytes masks and steps take. */
CDEC_API int64_t cdec_memo_bytes(cdec_memo *memo);

/* Byte pair encoding. Merges of a left and a right symbol, `pairs` [m] as left << 32 | right, ascending,
 * with their ranks, the lowest first, and what they make. Merge words of symbols in place, as long as
 * there is a merge; the caller has checked `starts` [n + 1]. Writes how many symbols are left at the
 * begin of each to `lengths` [n], and to `last` [n, 4] left, right and rank of the last merge, -1 for
 * none, and whether no rank was lower than one before. */
CDEC_API int64_t cdec_merge_words(cdec_i64 pairs, cdec_i32 ranks, cdec_i32 made,
                                  cdec_i32_out symbols, cdec_i64 starts, cdec_i32_out lengths,
                                  cdec_i32_rows_out last);
/* Clear in a mask `row` [w] the tokens that byte pair encoding never leaves behind one token within a
 * word: some merge crosses the border before both are made. `spine` [k]: that token, its right part,
 * that one's right part and so on, with the ranks with which each was made, -1 for none. All tokens
 * stand in pre-order [p] below their left parts, children in order of falling ranks: `token`, end of
 * the subtree `stop`, `rank`; `place` [v] is where a token stands there, -1 where nowhere. */
CDEC_API int64_t cdec_follow_row(cdec_i64 pairs, cdec_i32 ranks, cdec_i32 spine,
                                 cdec_i32 spine_ranks, cdec_i32 place, cdec_i32 token,
                                 cdec_i32 stop, cdec_i32 rank, cdec_i32_out row);

/* Best sums of scores of pieces by which texts behind one place are cut. Texts are numbered, shorter
 * ones first; those before the last pieces of text v, and these pieces' scores, stand from offsets[v]
 * [n + 1] on, `sources` and `scores` [m]. Text 0 is empty, and best[0] given. A way that leads to a text
 * from before the place has the sum crossing [n]. Writes `best` [n]. */
CDEC_API int64_t cdec_best_ways(cdec_i32 sources, cdec_f64 scores, cdec_i64 offsets,
                                cdec_f64 crossing, cdec_f64_out best);

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

/* ---- automata: constructions ---------------------------------------------------------------------
 *
 * Of arrays that the compilers made themselves: what they use as an index is in range. An automaton is
 * rows [n, k] of next states by class, -1 where none is, from state 0.
 *
 * A construction numbers lists of integers, equal ones once, and writes rows of such numbers, -1 for
 * none: of a subset construction the states, and what follows each by every class. What makes one does
 * little; cdec_construction_run does the work, a part at a call. */
typedef struct cdec_construction cdec_construction;
typedef struct cdec_most { /* what a construction may grow to */
  int64_t lists;
  int64_t items;   /* of all lists */
  int64_t numbers; /* of the rows; a step needs room for a list a class beforehand */
} cdec_most;
#define CDEC_COMPLETE 0
#define CDEC_UNDER_WAY 1
#define CDEC_TOO_LARGE 2

/* Go on for so many operations. Returns CDEC_COMPLETE, _UNDER_WAY or _TOO_LARGE. */
CDEC_API int64_t cdec_construction_run(cdec_construction *begun, const cdec_most *most,
                                       int64_t operations);
/* Write how many lists, items and rows there are to `sizes` [3]; return the width of the rows. */
CDEC_API int64_t cdec_construction_sizes(cdec_construction *complete, cdec_i64_out sizes);
/* Write the lists, items[offsets[i]:offsets[i + 1]], and the rows; lengths as above. */
CDEC_API int64_t cdec_construction_read(cdec_construction *complete, cdec_i64_out offsets,
                                        cdec_i32_out items, cdec_i32_rows_out numbers);
CDEC_API void cdec_construction_free(cdec_construction *begun);

/* A program of threads, N nodes of which 0 is the match, over A atoms of its charsets. */
typedef struct cdec_threads {
  cdec_i32 reads;           /* [N] charset that a node reads, -1: none */
  cdec_i32 follow_of;       /* [N] which list of threads follows the node, -1: none */
  cdec_i64 follow_offsets;  /* [L + 1] */
  cdec_i32 follow_nodes;    /* the lists one after another */
  cdec_i64 charset_offsets; /* [S + 1] */
  cdec_i32 charset_atoms;   /* the atoms of the charsets one after another */
  int64_t atoms;
  int64_t prioritised; /* whether a match cuts off the threads behind it; else they are sorted */
} cdec_threads;
/* States are the threads in their order, from `first`; classes are atoms. */
CDEC_API cdec_construction *cdec_determinise_threads(const cdec_threads *program, cdec_i32 first);

/* The automata of T terminals side by side, S states, over common classes of bytes. */
typedef struct cdec_terminals {
  cdec_i64 offsets; /* [S + 1] edges of a state, by class ascending */
  cdec_i32 kinds;   /* [E] class */
  cdec_i32 targets; /* [E] */
  cdec_bool accepts;        /* [S] */
  cdec_i32 owners;          /* [S] terminal of a state */
  cdec_i64 keyword_offsets; /* [T + 1] regular expressions that become a keyword, */
  cdec_i32 expressions;     /* one keyword's after another's */
  int64_t classes;
  int64_t competing; /* whether terminals compete; otherwise each goes its own way */
} cdec_terminals;
/* States are codes in the order of terminals, 2 * state, + 1 where a terminal is followed only to know
 * whether a text is a keyword; from the lists `starts`. */
CDEC_API cdec_construction *cdec_determinise_terminals(const cdec_terminals *terminals,
                                                       cdec_i64 offsets, cdec_i32 starts);

/* Follow two automata at once, by classes that are left_of and right_of [c] in them: states are pairs,
 * the number of its states where one has ended. kept [4]: for (in the left one) * 2 + (in the right one)
 * whether such texts are kept; kept[0] is not. */
CDEC_API cdec_construction *cdec_follow_both(cdec_i32_rows left, cdec_i32_rows right,
                                             cdec_i32 left_of, cdec_i32 right_of, cdec_bool kept);

#define CDEC_STOPS 0     /* entering a scanner state: nothing more can complete, */
#define CDEC_PLAIN 1     /* something can, later, */
#define CDEC_COMPLETES 2 /* a terminal ends */
/* A scanner of C states. */
typedef struct cdec_pending {
  cdec_i32_rows delta; /* [C, K] */
  cdec_u8 meaning;     /* [C] */
  cdec_i32 live_row;   /* [C] */
  cdec_u64_rows live;  /* [L, W] terminals that can complete, packed */
} cdec_pending;
/* Follow matches that are pending: states are pairs of a scanner state and the number of a set of
 * terminals, the first of them `ends` [e, w], packed and distinct; state 0 is a match that completed, the
 * next ones states [n] and state_ends [n]. */
CDEC_API cdec_construction *cdec_follow_pending(const cdec_pending *scanner, cdec_u64_rows ends,
                                                cdec_i32 states, cdec_i32 state_ends);

/* Find the terminals that complete in states reached from each after one byte or more, ascending, by one
 * pass over the strongly connected components, last ones first; rows are [c, 1]. A state completes
 * matches[match_offsets[c]:match_offsets[c + 1]], all below `terminals`. */
CDEC_API cdec_construction *cdec_find_live(cdec_i32_rows delta, cdec_i32 match_offsets,
                                           cdec_i32 matches, int64_t terminals);
/* Return 1 where a state is reached from itself, else 0. */
CDEC_API int64_t cdec_has_cycle(cdec_i32_rows delta);
/* Mark in `found` the letters, -1: none, of all states at least one byte after `sources`. `stamps` [c] is
 * `stamp`, another one in every call, where a state was met. */
CDEC_API int64_t cdec_mark_ahead(cdec_i32_rows delta, cdec_i32 letter, cdec_i32 sources,
                                 cdec_i32_out stamps, int64_t stamp, cdec_bool_out found);

/* ---- automata: spellings of numbers; fields as in cdec.compilers.regular.number_layout ---------- */

typedef struct cdec_bounds { /* B, by their digits */
  cdec_i64 sides;
  cdec_i64_rows whole, fraction, scientific; /* [B, 2] first digit, number of digits */
  cdec_i64 exponent;
  cdec_u8 digits;
} cdec_bounds;
typedef struct cdec_answers { /* of P patterns, C classes of digits */
  cdec_i32_rows pieces;       /* [2 sets * 2 sides, 2 B + 1] */
  cdec_bool zero, off, gridded;
  cdec_i32_rows following; /* [C, 10] */
  cdec_bool_rows on;       /* [P * 2 sides, C] */
} cdec_answers;
typedef struct cdec_sizes {
  int64_t places, most, longest, deepest, deep, mantissa, depth, far, has_powers, is_any, down, up,
      has_grid;
} cdec_sizes;
#define CDEC_UNFINISHED 0
#define CDEC_AT_END 1
#define CDEC_AT_LETTER 2

/* States are what is known of a number so far; classes are symbols: other bytes, plus, minus, point, ten
 * digits, the letter of exponents, and what follows that is left out. */
CDEC_API cdec_construction *cdec_spell_numbers(const cdec_bounds *bounds,
                                               const cdec_answers *answers,
                                               const cdec_sizes *sizes);
/* Write to `out` [n] whether a number may end in each state, or that the letter was read. */
CDEC_API int64_t cdec_spelling_ends(cdec_construction *spelling, cdec_u8_out out);
/* Write which exponents may follow `letters` [m], states: found [m, 2 far + 1] from -far to far. */
CDEC_API int64_t cdec_spelling_exponents(cdec_construction *spelling, cdec_i64 letters,
                                         cdec_bool_rows_out found);

/* ---- automata: edges by ranges of bytes ----------------------------------------------------------- */

typedef struct cdec_edges { /* E edges of N states, ascending and disjoint within a state */
  cdec_i64 offsets;         /* [N + 1] */
  cdec_u8 lows, highs;      /* [E] inclusive */
  cdec_i32 targets;         /* [E] */
} cdec_edges;

/* Lay out the edges of an automaton, as far as lows, highs and targets [e] have room, and `offsets` [n +
 * 1]; return how many there are. */
CDEC_API int64_t cdec_byte_ranges(cdec_i32 byte_class, cdec_i32_rows rows, cdec_i64_out offsets,
                                  cdec_u8_out lows, cdec_u8_out highs, cdec_i32_out targets);
/* Say in `found` [n] which texts an automaton accepts. */
CDEC_API int64_t cdec_accepted(cdec_i32 byte_class, cdec_i32_rows rows, cdec_bool accepts,
                               cdec_u8 texts, cdec_i64 offsets, cdec_bool_out found);
/* Mark in `found` [r] the rows, whose tokens are bytes, that an automaton accepts from a state, with `low`
 * to `high` characters, -1: any number; a state with a label, which is not -1, accepts. Other rows are left
 * as they are. Numbers are looked at: edges may come from a file. */
CDEC_API int64_t cdec_mark_accepted(const cdec_edges *edges, cdec_i32 labels, int64_t start,
                                    int64_t low, int64_t high, cdec_i32 tokens,
                                    cdec_i64 row_offsets, cdec_bool_out found);
/* Write to `out` [n] the fewest characters to a state with a label, which is not -1. A character counts
 * with its first byte: within one, it has been read already. */
CDEC_API int64_t cdec_shortest_texts(const cdec_edges *edges, cdec_i32 labels, cdec_i32_out out);
/* Write to `out` [n] 1 where any text can still be accepted, 2 where any text is, always, with one label,
 * else 0. `universe`: the edges of all of UTF-8. */
CDEC_API int64_t cdec_free_states(const cdec_edges *edges, cdec_i32 labels,
                                  const cdec_edges *universe, cdec_u8_out out);
/* Say which labels are reached from each state: those below `singles` are in [low, high), (0, 0) for
 * none; is_open [n] is 1 where others are. */
CDEC_API int64_t cdec_reached_labels(const cdec_edges *edges, cdec_i32 labels, int64_t singles,
                                     cdec_i32_out low, cdec_i32_out high, cdec_u8_out is_open);
/* Return the most characters of a text, -1 where there is no most, or no text. */
CDEC_API int64_t cdec_longest_text(const cdec_edges *edges, cdec_bool accepts);
/* Return how many texts have `low` to `high` characters, at most limit + 1. */
CDEC_API int64_t cdec_texts_between(const cdec_edges *edges, cdec_bool accepts, int64_t low,
                                    int64_t high, int64_t limit);

typedef struct cdec_graph cdec_graph; /* edges, and labels [n] of the states */
/* Lay the trie of distinct words, texts[begins[i]:begins[i + 1]] in the order of their bytes, in front of
 * an automaton that says what all other texts are, and whose labels are empty where there is none. What
 * leads to no label but the first state is left out. A word of label -1 is taken out. */
CDEC_API cdec_graph *cdec_words_beside(cdec_u8 texts, cdec_i64 begins, cdec_i32 word_labels,
                                       const cdec_edges *edges, cdec_i32 labels);
/* Write how many states and edges there are to `sizes` [2]. */
CDEC_API int64_t cdec_graph_sizes(cdec_graph *graph, cdec_i64_out sizes);
/* Write the edges and the labels; lengths as above. */
CDEC_API int64_t cdec_graph_read(cdec_graph *graph, cdec_i64_out offsets, cdec_u8_out lows,
                                 cdec_u8_out highs, cdec_i32_out targets, cdec_i32_out labels);
CDEC_API void cdec_graph_free(cdec_graph *graph);

/* ---- automata: minimisation; copies of counted repetitions. The compiler's own arrays: states are in
 * range. delta [n, k]: next state, -1 dead. ---------------------------------------------------------- */

/* Write the smallest automaton that gives every text the same sequence of labels [n], 0 for states that
 * mean nothing by themselves; what cannot reach a label is cut off, unless it is a start. Its states, in
 * the order in which a breadth-first walk from the starts meets them, are the first of merged [n, k] and
 * of representative [n], one old state for each; number [n] is what every old state became, -1 where it
 * was dropped. Returns how many states there are. */
CDEC_API int64_t cdec_merge_states(cdec_i32_rows delta, cdec_i32 labels, cdec_i32 starts,
                                   cdec_i32_rows_out merged, cdec_i32_out representative,
                                   cdec_i32_out number);
/* Refine blocks [n], numbered from 0 without a gap, until all edges respect them; return how many. */
CDEC_API int64_t cdec_refine(cdec_i32_rows delta, cdec_i32_out blocks);

#define CDEC_CLASH (-1) /* states that would be one lack different numbers of copies */

/* The counts of states (cdec.compilers.grammars.states), [n] each. */
typedef struct cdec_copies {
  cdec_i32_out copy;      /* the copy under way, the lowest of several; 0: nothing is counted */
  cdec_i32_out more;      /* copies to be put in behind copy `cut` */
  cdec_i32_out following; /* the state that has counted one more and is else the same; -1: none */
  int64_t cut;
} cdec_copies;
/* Write the counts of states that list items, or `flagged` 2 * item + flag; no two list the same. Where
 * the order means nothing, they ascend. Copies further apart than `spread` are not put in. Returns 0 or
 * CDEC_CLASH. */
CDEC_API int64_t cdec_count_rows(cdec_i64 offsets, cdec_i32 members, const cdec_copies *items,
                                 int64_t flagged, int64_t ordered, int64_t spread,
                                 const cdec_copies *found);
/* Complete the counts of an automaton over bytes, rows [n, k], where those of the first `states`, over
 * characters, are known, and of the others following is -2. Returns 0 or CDEC_CLASH. */
CDEC_API int64_t cdec_count_inside(cdec_i32_rows rows, int64_t states, const cdec_copies *whole);
/* Write what the counts of merged states are, number [n] as cdec_merge_states has it; found holds copy -1
 * and following -2. Returns 0 or CDEC_CLASH. */
CDEC_API int64_t cdec_merge_copies(const cdec_copies *copies, cdec_i32 number,
                                   const cdec_copies *found);

/* ---- trees: subterminal trees ---------------------------------------------------------------------
 *
 * The compiler's own arrays: numbers are in range. C scanner states, K byte classes, T terminals, X
 * contexts of the parser, N nodes of the vocabulary's trie. */
typedef struct cdec_tree_scanner {
  cdec_i32_rows delta;      /* [C, K] next state, -1 dead */
  cdec_i32 match_offsets;   /* [C + 1] terminals that entering a state completes */
  cdec_i32 match_terminals;
  cdec_i32 live_row;        /* [C] what can complete later; -1: nothing */
  cdec_i32 context_start;   /* [X] scanner state that a context begins in */
  cdec_i32 after_offsets;   /* [T + 1] contexts that may hold after a terminal */
  cdec_i32 after_contexts;  /* one for each unless `lexing` */
  cdec_bool ignored;        /* [T] unless `lexing`: terminals that leave the stack as it is */
  int64_t lexing;           /* contextual or basic; else every segmentation counts */
  int64_t max_branches;     /* of a token; one with more is verified byte by byte */
  int64_t max_nodes;        /* path nodes and groups of all trees, path nodes of a worker */
} cdec_tree_scanner;
typedef struct cdec_tree_trie { /* as cdec_byte_trie_fill writes it, with the scanner's classes */
  cdec_i32 classes;             /* [N] */
  cdec_i32 depth;               /* [N] from 1 */
  cdec_i32 skip;                /* [N] */
  cdec_i32 token_offsets;       /* [N + 1] */
  cdec_i32 token_ids;
} cdec_tree_trie;

/* Number what entering a state shows, the terminals completed and the live row, to labels [C]. */
CDEC_API int64_t cdec_state_labels(const cdec_tree_scanner *scanner, cdec_i64_out labels);
/* Write to longest [K], by a token's first class, how many of its bytes the terminal under way can
 * read, at least 1. */
CDEC_API int64_t cdec_longest_inside(const cdec_tree_scanner *scanner, const cdec_tree_trie *trie,
                                     cdec_i64_out longest);
/* Write the classes [C], by first state, of states that no text of lengths[c] bytes, rounded up to a
 * power of two, tells apart; 0: the state is a class of its own. A state's own label does not count, only
 * those of the states that its bytes lead to. As cdec_refine, for every power of two. */
CDEC_API int64_t cdec_classes_within(const cdec_tree_scanner *scanner, cdec_i64 labels,
                                     cdec_i64 lengths, cdec_i64_out classes);
/* Write to same [C] for each state one that has counted more and has the same tree, itself if none. */
CDEC_API int64_t cdec_alike_but_for_counts(const cdec_tree_scanner *scanner, cdec_i64 labels,
                                           const cdec_tree_trie *trie, const cdec_copies *copies,
                                           cdec_i32_out same);

/* The trees of scanner states, the roots [r] of classes 0 to r; asks_taken [r]: whether the tokens that
 * complete the terminal under way are wanted. A group of `dense_from` tokens or more is a mask of so many
 * words. The columns are the same whatever the number of workers. Freed with cdec_forest_free. */
typedef struct cdec_forest cdec_forest;
CDEC_API cdec_forest *cdec_new_forest(const cdec_tree_scanner *scanner, const cdec_tree_trie *trie,
                                      cdec_i32 roots, cdec_bool asks_taken, int64_t words,
                                      int64_t dense_from);
CDEC_API void cdec_forest_free(cdec_forest *forest);
/* One thread's share: it takes classes that no other worker has taken. */
typedef struct cdec_tree_worker cdec_tree_worker;
CDEC_API cdec_tree_worker *cdec_new_tree_worker(cdec_forest *forest);
CDEC_API void cdec_tree_worker_free(cdec_tree_worker *worker);
#define CDEC_TOO_MANY_NODES (-1)
/* Build trees for about so many steps (some 10 ns each). Returns 1 where there is more to do, 0 where
 * nothing is left, CDEC_TOO_MANY_NODES. */
CDEC_API int64_t cdec_build_trees(cdec_tree_worker *worker, int64_t steps);

typedef struct cdec_tree_columns { /* cdec.core.grammars.columns; E trees, G groups, P, B, M masks */
  cdec_i32_out tree_of_class;      /* [r] */
  cdec_i64_out tree_paths;         /* [E + 1] */
  cdec_i32_out path_parent;        /* [P] */
  cdec_i32_out path_terminal;
  cdec_i32_out path_byte;
  cdec_i32_out path_next;
  cdec_i64_out tree_groups;        /* [E + 1] */
  cdec_i64_out group_branches;     /* [G + 1] */
  cdec_i32_out branch_path;        /* [B] */
  cdec_i32_out branch_live;
  cdec_i32_out branch_depth;
  cdec_i32_out group_dense;        /* [G] */
  cdec_i64_out group_tokens;       /* [G + 1] */
  cdec_i32_out tokens;
  cdec_i64_out tree_verify;        /* [E + 1] */
  cdec_i32_out verify_tokens;
  cdec_i32_out tree_taken;         /* [E] */
  cdec_i32_out dense_masks;        /* [M * words] */
} cdec_tree_columns;
/* Number trees and masks, when all are built, and write to sizes [7] how many trees, path nodes, groups,
 * branches, tokens, tokens to verify and masks there are. */
CDEC_API int64_t cdec_forest_finish(cdec_forest *forest, cdec_i64_out sizes);
/* Write the columns, as long as cdec_forest_finish said. */
CDEC_API int64_t cdec_forest_write(cdec_forest *forest, const cdec_tree_columns *columns);

/* ---- grammars: the engine ------------------------------------------------------------------------
 *
 * An engine holds what the sessions of a grammar share: parser stacks, token masks, memos. Sessions
 * have decoding states of their own: numbers, CDEC_DEAD, CDEC_DONE. Calls may come from several
 * threads; an engine is locked while one works.
 *
 * Calls over rows begin with row `first` and return how many rows are done by then: fewer than there
 * are where a row was long (settings.pause_at); called again with that number, they go on where they
 * were. Or a status, and the session stays usable. */
#define CDEC_TOO_MUCH_WORK (-1) /* a row took more steps than settings.stop_at */
#define CDEC_MEMORY_FULL (-2)   /* all together would take more than settings.most_bytes */
#define CDEC_NO_LOOKAHEAD (1 << 30)

/* The columns of a compiled grammar, which cdec.core.grammars.columns describes; they stay while an
 * engine is used. Their lengths agree with each other, the caller's matter; what they hold may be
 * damaged. */
typedef struct cdec_grammar {
  cdec_i32 byte_class, delta, match_offsets, match_terminals, live_row, live_offsets,
      live_terminals, context_start, loop_row, loop_period, loop_copies, lr_context,
      terminal_context, ignored, action_offsets, action_terminals, action_values, goto_offsets,
      goto_symbols, goto_states, rule_lhs, rule_length, item_offsets, item_rules, item_dots,
      tree_of_state;
  cdec_i64 tree_paths;
  cdec_i32 path_parent, path_terminal, path_byte, path_next;
  cdec_i64 tree_groups, group_branches;
  cdec_i32 branch_path, branch_live, branch_depth, group_dense;
  cdec_i64 group_tokens;
  cdec_i32 tokens;
  cdec_i64 tree_verify;
  cdec_i32 verify_tokens, tree_taken, dense_masks;
  cdec_i64 automaton_offsets, automaton_items, automaton_step_offsets;
  cdec_i32 automaton_read, automaton_after, indent_roles, indent_symbols, state_column, lr_plain;
  cdec_i64 vocabulary_offsets;
  cdec_u8 vocabulary_bytes;
} cdec_grammar;
typedef struct cdec_grammar_settings {
  int64_t general;        /* whether the parser is the generalised one */
  int64_t lookahead;      /* terminals that may begin within a token after the first */
  int64_t scanner_states; /* of all copies of loops */
  int64_t stored_lists;   /* lists of the automaton to use: all of them, with rising offsets, or 0 */
  int64_t budget;         /* bytes of masks and memos that are kept from row to row */
  int64_t most_bytes;     /* of everything */
  int64_t pause_at;       /* steps of the parsers after which a call comes back */
  int64_t stop_at;        /* steps of a call */
  int64_t at_once;        /* LR states read from a stack before what is left is remembered */
} cdec_grammar_settings;

typedef struct cdec_grammar_engine cdec_grammar_engine;
typedef struct cdec_grammar_session cdec_grammar_session;

/* tree_state [E]: a scanner state of each tree; loop_state [H]: the first of each loop; end_ids
 * ascend. */
CDEC_API cdec_grammar_engine *cdec_grammar_engine_make(const cdec_grammar *grammar,
                                                       const cdec_grammar_settings *settings,
                                                       cdec_i32 tree_state, cdec_i64 loop_state,
                                                       cdec_i64 end_ids);
CDEC_API void cdec_grammar_engine_free(cdec_grammar_engine *engine);
/* Add the next set whose members are texts of a terminal, before the first session, to a grammar for
 * every segmentation (lexer dynamic). Tokens of its trie are bytes; `tokens` are the vocabulary's. What
 * both read must live as long as the engine. */
CDEC_API int64_t cdec_grammar_engine_add_set(cdec_grammar_engine *engine, int64_t terminal,
                                             const cdec_trie *trie, const cdec_token_trie *tokens);
/* The same of the pieces of a document. */
CDEC_API int64_t cdec_grammar_engine_add_document(cdec_grammar_engine *engine, int64_t terminal,
                                                  const cdec_spans *spans,
                                                  const cdec_token_trie *tokens);
/* Hold terminals, [t], to at most so many tokens in which a byte of the terminal stands, -1 for any
 * number, before the first session. Bytes that are no tokens then mean nothing. */
CDEC_API int64_t cdec_grammar_engine_add_budgets(cdec_grammar_engine *engine, cdec_i32 most,
                                                 const cdec_token_trie *tokens);
/* The same of rules, [r], for all tokens from its first byte to its last; not with an indenter. `least`,
 * [LR states]: the least number of a rule that may have begun with what a state stands for, else -1.
 * `is_exact`: all states are few, and each is followed to see which lead on; else one way to an end
 * from each is tried (native/grammars/counted_ends.h). */
CDEC_API int64_t cdec_grammar_engine_add_rule_budgets(cdec_grammar_engine *engine, cdec_i32 most,
                                                      cdec_i32 least, int64_t is_exact,
                                                      const cdec_token_trie *tokens);
/* Return with how few tokens of nothing but its bytes a terminal can be spelled, -1 where none is found;
 * behind cdec_grammar_engine_add_budgets. */
CDEC_API int64_t cdec_grammar_fewest_of_terminal(cdec_grammar_engine *engine, int64_t terminal);
/* Forget all masks and memos. */
CDEC_API int64_t cdec_grammar_engine_drop(cdec_grammar_engine *engine);
#define CDEC_GRAMMAR_STATISTICS 14
/* Write masks known and steps computed; masks, stacks, sets of stacks, shifts; epochs; bytes of memos,
 * of all, of stacks; edges of the generalised parser; new lists, their items, new steps. */
CDEC_API int64_t cdec_grammar_engine_statistics(cdec_grammar_engine *engine, cdec_i64_out out);
/* Write the states of the automaton of masks after reading an LR state each, -1 where nothing waits
 * any more. Comes back for good once the generalised parser has met more than `most_edges`. */
CDEC_API int64_t cdec_grammar_engine_steps(cdec_grammar_engine *engine, cdec_i64 states,
                                           cdec_i64 lr_states, int64_t most_edges,
                                           cdec_i64_out out, int64_t first);
/* Write the new lists of the automaton, and its new steps `state << 32 | LR state` in any order, and
 * the states after them; lengths as the statistics say, else -1. */
CDEC_API int64_t cdec_grammar_engine_automaton(cdec_grammar_engine *engine, cdec_i64_out offsets,
                                               cdec_i64_out items, cdec_i64_out steps,
                                               cdec_i64_out after);

/* `words`: of a mask; `most_steps`: places of the table of steps that is kept. The engine stays while
 * a session is used. */
CDEC_API cdec_grammar_session *cdec_grammar_session_make(cdec_grammar_engine *engine,
                                                         int64_t words, int64_t most_steps);
CDEC_API void cdec_grammar_session_free(cdec_grammar_session *session);
/* Return the state before the first byte, or a status. */
CDEC_API int64_t cdec_grammar_start(cdec_grammar_session *session);
/* Write, once a row, how many states there are where tokens count, if these have no more nodes of the
 * vocabulary's trie together than `most_nodes`, else -1. */
CDEC_API int64_t cdec_grammar_follow_all(cdec_grammar_session *session, int64_t most_nodes,
                                         cdec_i64_out out, int64_t first);
/* Write the states after `tokens` [n] from `states` [n]; O(1) each where it was done before. */
CDEC_API int64_t cdec_grammar_advance(cdec_grammar_session *session, cdec_i64 states,
                                      cdec_i64 tokens, cdec_i64_out out, int64_t first);
/* Say of tokens [n, m] whether each is allowed; no state is made. Rows are tokens, n * m of them. */
CDEC_API int64_t cdec_grammar_check(cdec_grammar_session *session, cdec_i64 states,
                                    cdec_i64_rows tokens, cdec_bool_rows_out out, int64_t first);
#define CDEC_BAD_WIDTH (-3)
/* Overwrite `mask` [n, words] with the exact masks; CDEC_BAD_WIDTH for another number of words. */
CDEC_API int64_t cdec_grammar_fill_mask(cdec_grammar_session *session, cdec_i64 states,
                                        cdec_i32_rows_out mask, int64_t first);
/* Say where the text so far is in the language, CDEC_DONE included. */
CDEC_API int64_t cdec_grammar_complete(cdec_grammar_session *session, cdec_i64 states,
                                       cdec_bool_out out, int64_t first);
/* Write how many tokens and end ids are allowed, and the only one (-1: none, or several; ends count as
 * one, given as the first). */
CDEC_API int64_t cdec_grammar_count_allowed(cdec_grammar_session *session, cdec_i64 states,
                                            cdec_i64_out counts, cdec_i32_out only, int64_t first);
/* Write the allowed tokens and end ids, ascending, as far as offsets [n + 1] have room. */
CDEC_API int64_t cdec_grammar_fill_allowed(cdec_grammar_session *session, cdec_i64 states,
                                           cdec_i64 offsets, cdec_i32_out ids, int64_t first);
/* Write the states after the bytes text[offsets[i]:offsets[i + 1]]; a lookahead does not apply. */
CDEC_API int64_t cdec_grammar_advance_bytes(cdec_grammar_session *session, cdec_i64 states,
                                            cdec_u8 text, cdec_i64 offsets, cdec_i64_out out,
                                            int64_t first);
/* Write with how few further tokens texts may end at states, or a bound from above that can be followed
 * (native/grammars/endings.h), and the most of these behind any token; INT64_MAX where no end is known
 * to be in reach. Without a lookahead and sets. `tokens`, which must live as long as the session: of the
 * vocabulary. Each state is thought about once. */
CDEC_API int64_t cdec_grammar_fewest(cdec_grammar_session *session, cdec_i64 states,
                                     const cdec_token_trie *tokens, cdec_i64_out out, int64_t first);
CDEC_API int64_t cdec_grammar_ahead(cdec_grammar_session *session, cdec_i64 states,
                                    const cdec_token_trie *tokens, cdec_i64_out out, int64_t first);
/* Hash the first configuration of each state: its scanner state and the top three LR states. */
CDEC_API int64_t cdec_grammar_speculation_keys(cdec_grammar_session *session, cdec_i64 states,
                                               cdec_i64_out out);
/* Say in out[0], one row, whether a stack can shift a terminal. */
CDEC_API int64_t cdec_grammar_can_shift(cdec_grammar_session *session, int64_t stack,
                                        int64_t terminal, cdec_bool_out out, int64_t first);
/* Write the parser configurations of a state [m, 2], scanner state and stack; return how many. */
CDEC_API int64_t cdec_grammar_configurations(cdec_grammar_session *session, int64_t state,
                                             cdec_i32_rows_out out);
/* Return the number of the set whose member is under way at a scanner state of a configuration; -1. */
CDEC_API int64_t cdec_grammar_set_of(cdec_grammar_session *session, int64_t at);
/* Write the LR states on top of a stack, those on the way down from the first, and its depth to
 * depth[0]; as far as there is room. Returns how many are on top. */
CDEC_API int64_t cdec_grammar_stack(cdec_grammar_session *session, int64_t stack, cdec_i32_out tops,
                                    cdec_i32_out path, cdec_i64_out depth);
/* cdec_grammar_fill_mask and cdec_grammar_advance of states that count tokens, as cdec_fitted_split has
 * them; a row of another width, or states that are not all far from the end: -1, or fewer than n. */
CDEC_API int64_t cdec_grammar_fill_fitted(cdec_grammar_session *session, cdec_i64 states,
                                          cdec_i64 ahead, cdec_i32_rows_out mask);
CDEC_API int64_t cdec_grammar_advance_fitted(cdec_grammar_session *session, cdec_i64 states,
                                             cdec_i64 ahead, cdec_i64 tokens, cdec_i64_out out);
/* Write how many states and remembered steps there are, and their bytes. */
CDEC_API int64_t cdec_grammar_statistics(cdec_grammar_session *session, cdec_i64_out out);

/* ---- schemas: the engine ------------------------------------------------------------------------- */

/* The columns of a compiled schema: what each holds, its shape and its invariants stand in
 * cdec.core.schemas.program. */
typedef struct cdec_schema {
  cdec_i64 state_edges;
  cdec_u8 edge_low;
  cdec_u8 edge_high;
  cdec_i32 edge_target;
  cdec_i32 state_label;
  cdec_i32 state_shortest;
  cdec_u8 state_free;
  cdec_i32 state_low;
  cdec_i32 state_high;
  cdec_u8 state_open;
  cdec_i32 raw_start;
  cdec_i64 string_offsets;
  cdec_i32 string_start;
  cdec_i64 string_min;
  cdec_i64 string_max;
  cdec_i64 array_offsets;
  cdec_i32 array_ids;
  cdec_i64 object_offsets;
  cdec_i32 object_ids;
  cdec_i32 choice_value;
  cdec_i64 choice_counter_offsets;
  cdec_i32 choice_counters;
  cdec_i64 array_min;
  cdec_i64 array_max;
  cdec_u8 array_distinct;
  cdec_i64 array_position_offsets;
  cdec_i64 position_choice_offsets;
  cdec_i64 array_counter_offsets;
  cdec_i64 array_counter_min;
  cdec_i64 array_counter_max;
  cdec_i64 object_min;
  cdec_i64 object_max;
  cdec_i32 object_key;
  cdec_u8 object_ordered;
  cdec_u8 object_distinct;
  cdec_i64 object_slot_offsets;
  cdec_i64 slot_choice_offsets;
  cdec_u8 slot_single;
  cdec_u8 slot_required;
  cdec_i32 slot_rank;
  cdec_i64 object_counter_offsets;
  cdec_i64 object_counter_min;
  cdec_i64 object_counter_max;
  cdec_i32 blank_start;
  cdec_i32 indent;
  cdec_i64 place_offsets; /* this and the next three are not read */
  cdec_u8 place_bytes;
  cdec_i64 key_offsets;
  cdec_u8 key_bytes;
  cdec_i64 vocabulary_offsets;
  cdec_u8 vocabulary_bytes;
} cdec_schema;
/* What the T tokens of a vocabulary are within JSON (cdec.core.schemas.json_tokens). */
typedef struct cdec_json_tokens {
  cdec_u32_rows content; /* [longest + 2, words] packed masks of content of at most so many
                          * characters, then of any; then of all tokens inside of strings */
  cdec_i32 run_of;       /* [T] the run of white space that a token begins with */
  cdec_u8 runs;
  cdec_i64 run_offsets;
  cdec_i32 blank; /* tokens of white space alone */
} cdec_json_tokens;

/* Classify tokens of bytes data[starts[t]:starts[t + 1]], [t] each: `characters` that begin in one of
 * content alone, else -1; `cuts`, where its first quote or backslash stands behind content, else -1;
 * `ends`, where the string ends in it, else -1, or CDEC_INSIDE; `blanks`, how much white space it
 * begins with. `few` is 1 where escapes of printable ASCII that needs none are no content. */
#define CDEC_INSIDE (-2)
CDEC_API int64_t cdec_json_tokens_classify(cdec_u8 data, cdec_i64 starts, int64_t few,
                                           cdec_i32_out characters, cdec_i32_out cuts,
                                           cdec_i32_out ends, cdec_i32_out blanks);
/* Set the bits of content tokens in zeroed `rows` [longest + 1, words], as cdec_json_tokens has them. */
CDEC_API int64_t cdec_json_tokens_content(cdec_i32 characters, cdec_u32_rows_out rows);

/* States, steps and masks over a program and a vocabulary, for all threads: calls take turns. States
 * are numbers from 0; CDEC_DEAD, CDEC_DONE. What an engine keeps it counts; masks are dropped, all at
 * once, before they pass `budget` bytes, or at the end of a call that alone needs more.
 *
 * Calls on n states return how many rows are done. They may be fewer, even none: a call that has
 * computed for long comes back, and what it remembers shortens the next. CDEC_STATES_FULL: states and
 * steps have passed `most` bytes.
 *
 * The caller has checked `schema` (cdec.core.schemas.program_checks); the tries and tokens are of one
 * vocabulary. */
#define CDEC_STATES_FULL (-1)
typedef struct cdec_schema_engine cdec_schema_engine;
/* What expressions of ECMA-262 name: what may stand in \p{...}, ascending, each before a line feed; the
 * ranges of characters, first and last, with which the names of groups may begin and go on. */
typedef struct cdec_regexes {
  cdec_u8 properties;
  cdec_i32 starts;
  cdec_i32 continues;
} cdec_regexes;
CDEC_API cdec_schema_engine *cdec_schema_engine_make(
    const cdec_schema *schema, const cdec_token_trie *whole, const cdec_token_trie *crossing,
    const cdec_token_trie *endings, const cdec_token_trie *behind, const cdec_json_tokens *tokens,
    cdec_i64 end_ids, int64_t budget, int64_t most);
CDEC_API void cdec_schema_engine_free(cdec_schema_engine *engine);
/* Add the next set whose members strings may be, before the first start: the i-th that is added is
 * that of alternatives whose `string_start` is -1 - i. Its tokens are bytes; what it reads must live
 * as long as the engine. */
CDEC_API int64_t cdec_schema_engine_add_set(cdec_schema_engine *engine, const cdec_trie *trie);
/* The same of the pieces of a document. */
CDEC_API int64_t cdec_schema_engine_add_document(cdec_schema_engine *engine,
                                                 const cdec_spans *spans);
/* The same of the regular expressions of ECMA-262 that an automaton of the schema, from a state on,
 * accepts as well; it goes on with any text, and from everywhere to an end by characters that stand for
 * themselves in an expression. */
CDEC_API int64_t cdec_schema_engine_add_regexes(cdec_schema_engine *engine, int64_t start,
                                                const cdec_regexes *tables);
/* Hold alternatives of strings, one each, to at most so many tokens in which a byte of the string
 * stands, -1 for any number; before the first start. Bytes that are no tokens then mean nothing. */
CDEC_API int64_t cdec_schema_engine_add_budgets(cdec_schema_engine *engine, cdec_i32 most);
/* Write with how few tokens of nothing but content alternatives of strings can be spelled, INT64_MAX where
 * none is known (native/schemas/budgets.h). */
CDEC_API int64_t cdec_schema_engine_fewest_of_strings(cdec_schema_engine *engine, cdec_i64 strings,
                                                      cdec_i64_out out);
/* Return the state before the first byte. */
CDEC_API int64_t cdec_schema_engine_start(cdec_schema_engine *engine);
/* Write the states after `token_ids` [n]; O(1) each where it was done before. */
CDEC_API int64_t cdec_schema_engine_advance(cdec_schema_engine *engine, cdec_i64 states,
                                            cdec_i64 token_ids, cdec_i64_out out);
/* Say of proposed tokens [n, m] what is allowed; no mask is computed. */
CDEC_API int64_t cdec_schema_engine_check(cdec_schema_engine *engine, cdec_i64 states,
                                          cdec_i64_rows token_ids, cdec_bool_rows_out out);
/* Overwrite `mask` [n, words] with the exact masks. */
CDEC_API int64_t cdec_schema_engine_fill_mask(cdec_schema_engine *engine, cdec_i64 states,
                                              cdec_i32_rows_out mask);
/* Say where the text may end (or has); all n. */
CDEC_API int64_t cdec_schema_engine_complete(cdec_schema_engine *engine, cdec_i64 states,
                                             cdec_bool_out out);
/* Write the states after the bytes data[offsets[i]:offsets[i + 1]], [n + 1]. */
CDEC_API int64_t cdec_schema_engine_advance_bytes(cdec_schema_engine *engine, cdec_i64 states,
                                                  cdec_u8 data, cdec_i64 offsets, cdec_i64_out out);
/* Hash what states are about, equal in every engine of the program: phases, values and places in
 * automata of two levels; all n. Counts and keys seen are left out. */
CDEC_API int64_t cdec_schema_engine_speculation_keys(cdec_schema_engine *engine, cdec_i64 states,
                                                     cdec_i64_out out);
/* Write with how few further tokens texts may end at states, or a bound from above that can be followed
 * (native/schemas/endings.h), and the most of these behind any token, or more; INT64_MAX where no end is
 * known to be in reach. Each state is thought about once. */
CDEC_API int64_t cdec_schema_engine_fewest(cdec_schema_engine *engine, cdec_i64 states, cdec_i64_out out);
CDEC_API int64_t cdec_schema_engine_ahead(cdec_schema_engine *engine, cdec_i64 states, cdec_i64_out out);
/* cdec_schema_engine_fill_mask and cdec_schema_engine_advance of states that count tokens, as
 * cdec_fitted_split has them; -1, or fewer than n, where they are not all far from the end. */
CDEC_API int64_t cdec_schema_engine_fill_fitted(cdec_schema_engine *engine, cdec_i64 states,
                                                cdec_i64 ahead, cdec_i32_rows_out mask);
CDEC_API int64_t cdec_schema_engine_advance_fitted(cdec_schema_engine *engine, cdec_i64 states,
                                                   cdec_i64 ahead, cdec_i64 tokens,
                                                   cdec_i64_out out);
/* Read the level `outward` levels outside of a state, as far as `items` [k, 4] has room: first phase,
 * frame outside (-1 for none), text and 0; then of each alternative value, part, place and content
 * (native/schemas/frames.h). Returns how many rows there are; 0 without such a level. */
CDEC_API int64_t cdec_schema_engine_level(cdec_schema_engine *engine, int64_t state, int64_t outward,
                                          cdec_i64_rows_out items);
/* Read the numbers of a progress, as far as there is room; return how many there are. */
CDEC_API int64_t cdec_schema_engine_progress(cdec_schema_engine *engine, int64_t progress,
                                             cdec_i64_out numbers);
/* Forget all masks. */
CDEC_API int64_t cdec_schema_engine_drop(cdec_schema_engine *engine);
/* Write counts [9]: states, frames, steps, mask hits, misses, masks, epochs, bytes of masks, bytes. */
CDEC_API int64_t cdec_schema_engine_statistics(cdec_schema_engine *engine, cdec_i64_out counts);

/* ---- canonical spellings -------------------------------------------------------------------------
 *
 * What a tokenizer writes: states are numbers from 0, each a context and a last token (-1: none). Of
 * plain contexts, sets of places with a tail, the library knows what follows; of others it is told.
 * A call that lacks something comes back with the rows that are done, and says in needed [3] what: one of
 * these, the state, or the tail, and the token. Told, and called again from that row on, it goes on. */
#define CDEC_NEEDS_MASK 0       /* of a state of what is spelled */
#define CDEC_NEEDS_STEP 1       /* behind a token of one */
#define CDEC_NEEDS_TAIL 2       /* masks of a tail */
#define CDEC_NEEDS_INNER_MASK 3 /* of a state of the constraint: it had no room, or too much work */
#define CDEC_NEEDS_INNER_STEP 4

/* A tokenizer of byte pair encoding (cdec.core.spelling.speller); all arrays but end_ids are empty where
 * every state is told. They are the caller's own: what they hold as an index is in range. P places, C
 * classes of characters, S shapes of tokens, V tokens of text, m merges. */
typedef struct cdec_spelling {
  int64_t words, width;
  cdec_i64 end_ids;
  cdec_i32 first;          /* [C] place after the first character of a text, -1 for none */
  cdec_i32 within;         /* [P * C] after a character of the same pre-token */
  cdec_i64 across_offsets; /* [P * C + 1] those after a character before which one ended */
  cdec_i32 across;
  cdec_bool may_end;       /* [P] */
  cdec_i64 shape_offsets;  /* [S + 1] classes of a shape's whole characters */
  cdec_i32 shape_classes;
  cdec_i32 shape_tail;     /* [S] the begin of a character at its end, -1 for none: */
  cdec_i64 tail_offsets;   /* classes of those that begin so */
  cdec_i32 tail_classes;
  cdec_bool shape_lead;    /* [S] whether it begins within a character */
  cdec_i32 shape_of;       /* [V] -1: no text */
  cdec_u8 kind;            /* [V] 0: never written, 1: found here behind plain contexts, 2: told */
  cdec_i32 tail_of;        /* [V] what may yet be composed behind a token */
  cdec_i64 pairs;          /* [m] as cdec_merge_words has them */
  cdec_i32 ranks, made;
  cdec_i32 lefts, rights, made_at; /* [V] parts of a token and its rank, -1 for none */
  cdec_bool is_made, is_tangled;   /* [V] whether merges make it; whether ranks did not ascend */
  cdec_i32 tangled;                /* these tokens */
  cdec_i64 symbol_starts;          /* [V + 1] */
  cdec_i32 symbols;
  cdec_i32 place, token, stop, rank; /* as cdec_follow_row has them */
} cdec_spelling;

typedef struct cdec_spelled cdec_spelled;
/* `spelling` lives as long as what is made. */
CDEC_API cdec_spelled *cdec_spelled_make(const cdec_spelling *spelling);
CDEC_API void cdec_spelled_free(cdec_spelled *spelled);
/* Return the number of a plain context: ascending places, -1 before a text; -1 for places that are none.
 * Of a new one that is told. Of a state. */
CDEC_API int64_t cdec_spelled_plain(cdec_spelled *spelled, cdec_i32 places, int64_t tail);
CDEC_API int64_t cdec_spelled_told(cdec_spelled *spelled, int64_t may_end);
CDEC_API int64_t cdec_spelled_number(cdec_spelled *spelled, int64_t context, int64_t token);
/* Write context, token, tail and the places of a state, as far as there is room; return how many places
 * there are, -1 for a context that is told. */
CDEC_API int64_t cdec_spelled_read(cdec_spelled *spelled, int64_t state, cdec_i64_out out);
/* Tell the state behind a token, CDEC_DEAD for none; the mask of a state [words]; of a tail the tokens
 * that keep a text normal, and those that may break it off where it may end. */
CDEC_API int64_t cdec_spelled_tell_step(cdec_spelled *spelled, int64_t state, int64_t token,
                                        int64_t after);
CDEC_API int64_t cdec_spelled_tell_mask(cdec_spelled *spelled, int64_t state, cdec_i32 mask);
CDEC_API int64_t cdec_spelled_tell_tail(cdec_spelled *spelled, int64_t tail, cdec_i32 kept,
                                        cdec_i32 breaks);
/* As cdec_product_fill_mask and cdec_product_advance, of what is spelled alone. */
CDEC_API int64_t cdec_spelled_fill_mask(cdec_spelled *spelled, cdec_i64 states,
                                        cdec_i32_rows_out mask, cdec_i64_out needed);
CDEC_API int64_t cdec_spelled_advance(cdec_spelled *spelled, cdec_i64 states, cdec_i64 tokens,
                                      cdec_i64_out out, cdec_i64_out needed);
/* Say where texts may end, CDEC_DONE included. */
CDEC_API int64_t cdec_spelled_complete(cdec_spelled *spelled, cdec_i64 states, cdec_bool_out out);
/* Write how many states there are, and bytes of all. */
CDEC_API int64_t cdec_spelled_statistics(cdec_spelled *spelled, cdec_i64_out out);

/* A constraint as a tokenizer spells it: states are pairs, numbered from 0 as they are met. Tokens that
 * lead to proved dead ends are refused (native/canonical/product.cc). What both read must live as long. */
typedef struct cdec_product_settings {
  int64_t looks_ahead; /* whether dead ends are looked for */
  int64_t most_states; /* that a search looks at; and tokens of a state that is looked at */
  int64_t most_masks, most_steps; /* that are kept */
} cdec_product_settings;
typedef struct cdec_product cdec_product;
CDEC_API cdec_product *cdec_product_of_grammar(cdec_grammar_session *session, cdec_spelled *spelled,
                                               const cdec_product_settings *settings);
CDEC_API cdec_product *cdec_product_of_schema(cdec_schema_engine *engine, cdec_spelled *spelled,
                                              const cdec_product_settings *settings);
CDEC_API void cdec_product_free(cdec_product *product);
/* Return the number of a pair of states; -1 where one is none. */
CDEC_API int64_t cdec_product_pair(cdec_product *product, int64_t left, int64_t right);
/* Write both sides' states, CDEC_DEAD for what is no pair. */
CDEC_API int64_t cdec_product_halves(cdec_product *product, cdec_i64 states, cdec_i64_out left,
                                     cdec_i64_out right);
/* Overwrite `mask` [n, words]; -1 for another width. Write the states behind tokens. */
CDEC_API int64_t cdec_product_fill_mask(cdec_product *product, cdec_i64 states,
                                        cdec_i32_rows_out mask, cdec_i64_out needed);
CDEC_API int64_t cdec_product_advance(cdec_product *product, cdec_i64 states, cdec_i64 tokens,
                                      cdec_i64_out out, cdec_i64_out needed);
/* Take whether states [n], all there are, are stuck; look ahead at states of up to `most_ways` tokens. */
CDEC_API int64_t cdec_product_know(cdec_product *product, cdec_i64 states, cdec_bool stuck,
                                   int64_t most_ways);
/* Write how many states there are, and bytes of all. */
CDEC_API int64_t cdec_product_statistics(cdec_product *product, cdec_i64_out out);

/* Texts cut where their fixed parts begin and end (native/canonical/pieces.cc), over the states of
 * another session, of which 256 steps each are told. States are numbers from 0 on, as they are met.
 * `needed` [2 + most]: where a call comes to something that is not told, it returns how many rows are
 * done, and writes 0, a number and so many states whose rows are to be told, or 1, 1 and a state whose
 * part is. `tokens` lives as long as what is made. */
typedef struct cdec_pieces_settings {
  cdec_i64 end_ids, byte_offsets; /* of the vocabulary */
  cdec_u8 flat_bytes;
  int64_t words, most_masks; /* of a mask, and how many are kept */
} cdec_pieces_settings;
typedef struct cdec_pieces cdec_pieces;
CDEC_API cdec_pieces *cdec_pieces_make(const cdec_token_trie *tokens,
                                       const cdec_pieces_settings *settings);
CDEC_API void cdec_pieces_free(cdec_pieces *pieces);
/* Return the state of a text behind which the other session has a state; -1 for none of its states.
 * Write the other session's states, CDEC_DEAD for what is none. */
CDEC_API int64_t cdec_pieces_number(cdec_pieces *pieces, int64_t inner);
CDEC_API int64_t cdec_pieces_read(cdec_pieces *pieces, cdec_i64 states, cdec_i64_out inner);
/* Tell where each of 256 bytes leads from states [n], `after` [n, 256], and whether texts may end. */
CDEC_API int64_t cdec_pieces_tell_rows(cdec_pieces *pieces, cdec_i64 states, cdec_i64_rows after,
                                       cdec_bool may_end);
/* Return how many bytes the part has that begins at a state, and write as many as there is room for; -1
 * where something is needed. Tell its tokens, none for a part that no tokens spell. */
CDEC_API int64_t cdec_pieces_part(cdec_pieces *pieces, int64_t state, cdec_u8_out bytes,
                                  cdec_i64_out needed);
CDEC_API int64_t cdec_pieces_tell_part(cdec_pieces *pieces, int64_t state, cdec_i32 tokens);
/* Overwrite `mask` [n, words]; -1 for another width. Write the states behind tokens; behind bytes,
 * wherever parts begin; whether one begins at states; where texts may end. */
CDEC_API int64_t cdec_pieces_fill_mask(cdec_pieces *pieces, cdec_i64 states, cdec_i32_rows_out mask,
                                       cdec_i64_out needed);
CDEC_API int64_t cdec_pieces_advance(cdec_pieces *pieces, cdec_i64 states, cdec_i64 tokens,
                                     cdec_i64_out out, cdec_i64_out needed);
CDEC_API int64_t cdec_pieces_follow(cdec_pieces *pieces, cdec_i64 states, cdec_u8 bytes,
                                    cdec_i64_out out, cdec_i64_out needed);
CDEC_API int64_t cdec_pieces_begins(cdec_pieces *pieces, cdec_i64 states, cdec_bool_out out,
                                    cdec_i64_out needed);
CDEC_API int64_t cdec_pieces_complete(cdec_pieces *pieces, cdec_i64 states, cdec_bool_out out,
                                      cdec_i64_out needed);
/* Write how many states there are, and bytes of all. */
CDEC_API int64_t cdec_pieces_statistics(cdec_pieces *pieces, cdec_i64_out out);

/* ---- sampling: contexts of a model --------------------------------------------------------------
 *
 * A hash table from (parent, token) to the child's id: `slots` [a power of two] holds ids, -1 where
 * free, and no keys, since the columns `parent` and `token` [c] of the nodes are the keys; `number`
 * [c] is -1 where an id is not in use. One slot at least is free. */

/* Return the place of the first of `nodes` that is not in use, -1 if all are. */
CDEC_API int64_t cdec_contexts_lost(cdec_i32 number, int64_t used, cdec_i64 nodes);
#define CDEC_NOT_LIVE (-1)  /* of contexts_find: a parent is no live node */
#define CDEC_BAD_TOKEN (-2) /* a token is negative, or not below `limit` or 2^31 */
/* Write the child of each pair above, tokens [n] to `children` [n]; of a pair that has none yet
 * -1 - its number among the distinct such pairs, which ascend. Returns how many those are, or
 * CDEC_NOT_LIVE or CDEC_BAD_TOKEN. */
CDEC_API int64_t cdec_contexts_find(cdec_i32 slots, cdec_i32 parent, cdec_i32 token,
                                    cdec_i32 number, int64_t used, int64_t limit, cdec_i64 above,
                                    cdec_i64 tokens, cdec_i64_out children);
/* Add the pairs that `contexts_find` found missing under the free `ids` [m], one a distinct pair, and
 * write these to `children`; the table must have room. The caller has checked all ids. */
CDEC_API int64_t cdec_contexts_add(cdec_i32_out slots, cdec_i32_out parent, cdec_i32_out token,
                                   cdec_i32_out depth, cdec_i32_out number, cdec_i64 ids,
                                   cdec_i64 above, cdec_i64 tokens, cdec_i64_out children);
/* Write the distinct `nodes` [n] whose value in `held` [c] is negative to `missing` [n], ascending;
 * return how many there are, or -1 - i where nodes[i] is not in use. */
CDEC_API int64_t cdec_contexts_missing(cdec_i32 number, int64_t used, cdec_i32 held, cdec_i64 nodes,
                                       cdec_i64_out missing);
/* Write starts[number of the root] + depth of each live node [n]; return the largest. */
CDEC_API int64_t cdec_contexts_lengths(cdec_i32 number, cdec_i32 depth, cdec_i64 starts,
                                       cdec_i64 nodes, cdec_i64_out lengths);
/* Add amounts [n, or 1 for all] to `counts` [r] of the roots of live nodes [n]; return their sum. */
CDEC_API int64_t cdec_contexts_count(cdec_i32 number, cdec_i64 nodes, cdec_i64 amounts,
                                     cdec_i64_out counts);
/* Write chains of slots to the rows of `table` [n, k], from the right, 0 to the left: each begins
 * with last[i] and goes on with `above` [s] of it until 0. The caller has checked all slots. */
CDEC_API int64_t cdec_slots_rows(cdec_i32 above, cdec_i64 last, cdec_i64_rows_out table);
/* Write the descendants of path[0], a live node, along `tokens` [n] behind it, path [n + 1]; return
 * how many there are. */
CDEC_API int64_t cdec_contexts_path(cdec_i32 slots, cdec_i32 parent, cdec_i32 token, cdec_i64 tokens,
                                    cdec_i64_out path);
/* Enter nodes that the table does not hold; those of -1 are skipped. */
CDEC_API int64_t cdec_contexts_insert(cdec_i32_out slots, cdec_i32 parent, cdec_i32 token,
                                      cdec_i32 nodes);
/* Take nodes out; return how many were there. */
CDEC_API int64_t cdec_contexts_remove(cdec_i32_out slots, cdec_i32 parent, cdec_i32 token,
                                      cdec_i64 nodes);
/* Group n walks by (request, context), those of a group by `draw` and then by position: the walks
 * group by group to `order`, where each group begins there to `starts`, each walk's group to `group`.
 * Return how many groups there are; -1, and nothing is written, where every walk is the next group. */
CDEC_API int64_t cdec_contexts_group(cdec_i64 contexts, cdec_i64 request, cdec_i64 draw,
                                     cdec_i64_out order, cdec_i64_out starts, cdec_i64_out group);
/* Write to `events` [n] the token that followed the longest earlier run (of at most `most` tokens)
 * equal to the last tokens of each context, of equally long ones the latest; -2 where there is none.
 * A context is the prompt of its request, prompts[starts[r]:starts[r + 1]], and the tokens below. */
CDEC_API int64_t cdec_contexts_repeated(cdec_i64 contexts, cdec_i64 request, cdec_i32 parent,
                                        cdec_i32 token, cdec_i32 depth, cdec_i64 starts,
                                        cdec_i32 prompts, int64_t most, cdec_i64_out events);

/* ---- sampling: counts of events -----------------------------------------------------------------
 *
 * A hash table of C places, a power of two; one at least is free. A place holds a key and E events that
 * followed it, often ones first, with how often each was met. One that comes when there are E takes
 * over the rarest one and its times: so these add up to all that followed, and none is told too seldom,
 * or too often by more than a share of 1 / E. */
typedef struct cdec_counts {
  cdec_i64_out keys;        /* [C] */
  cdec_i32_rows_out events; /* [C, E] */
  cdec_i64_rows_out times;  /* [C, E], 0 where there are fewer; a place without any is free */
} cdec_counts;

/* Write to keys [n, m] the key `own` of each row and the m - 1 last tokens of its text, fewer and
 * fewer of them: own alone comes last. The caller has checked the contexts. */
CDEC_API int64_t cdec_counts_keys(cdec_i64 contexts, cdec_i64 own, cdec_i32 parent, cdec_i32 token,
                                  cdec_i32 depth, cdec_i64_rows_out keys);
/* Write to events [n] the most frequent event of the first key of each row of which its share, of one
 * event more than was met, is above the threshold; CDEC_NO_EVENT where there is none. */
CDEC_API int64_t cdec_counts_guess(const cdec_counts *counts, cdec_i64_rows keys, double threshold,
                                   cdec_i64_out events);
/* Count an event [n] for each key of its row; CDEC_NO_EVENT is passed over. There is room for all keys.
 * Adds to foreseen [1] how many tokens `counts_guess` would have told; returns how many keys are new. */
CDEC_API int64_t cdec_counts_learn(const cdec_counts *counts, cdec_i64_rows keys, double threshold,
                                   cdec_i64 events, cdec_i64_out foreseen);
/* Count an event `times` times, not 0; return 1 if the key is new. */
CDEC_API int64_t cdec_counts_add(const cdec_counts *counts, int64_t key, int64_t event,
                                 int64_t times);
/* Return the place of a key, -1 where it is unknown. */
CDEC_API int64_t cdec_counts_find(const cdec_counts *counts, int64_t key);
/* Enter the places `rows` [n] of one table into another that has none of their keys. */
CDEC_API int64_t cdec_counts_move(const cdec_counts *from, cdec_i64 rows, const cdec_counts *to);

/* ---- sampling: choice among allowed events -------------------------------------------------------
 *
 * Functions work on *nodes* (distinct prefixes) with a list of allowed ids each, and on the walks
 * that stand at each node: a node is gathered and summed once however many walks share it. All end
 * ids together are one event, CDEC_END_EVENT. Arithmetic is float64 whatever the scores. Lists are
 * sorted; an id outside of the scores has mass zero. */
#define CDEC_END_EVENT (-1) /* the end of the text, by any end id */
#define CDEC_NO_EVENT (-2)  /* no event has positive mass: a dead end */
#define CDEC_BLOCK 256      /* entries whose sum is kept: an inversion looks into one block only */

typedef struct cdec_known { /* the model's scores at N nodes */
  cdec_scores scores;       /* [M, V] */
  cdec_f64 log_normalizer;  /* [M] */
  cdec_i64 rows;            /* [N] row of each node */
} cdec_known;
typedef struct cdec_lists { /* allowed ids of S of the nodes, which share lists */
  cdec_i64 which;           /* [S] nodes */
  cdec_i64 lists;           /* [S] list of each */
  cdec_i64 offsets;         /* [L + 1] */
  cdec_i32 ids;             /* the lists, each sorted */
} cdec_lists;
typedef struct cdec_ends {
  cdec_i64 ids;
  cdec_bool is_end; /* [V] */
} cdec_ends;
/* Row rows[i] of `values` becomes the outputs starts[i].. of PCG64(seeds[i]) as numpy seeds it, each as
 * a number in [0, 1). */
CDEC_API int64_t cdec_fill_uniforms(cdec_u64 seeds, cdec_u64 starts, cdec_i64 rows,
                                    cdec_f64_rows_out values);
typedef struct cdec_draws { /* W walks by node, and their uniforms */
  cdec_i64 walk_starts;     /* [N + 1] */
  cdec_i64 walk_order;      /* [W] */
  cdec_f64 uniforms;        /* [W] in [0, 1) */
} cdec_draws;
typedef struct cdec_drawn {
  cdec_i64_out tokens;       /* [W] a token id, CDEC_END_EVENT or CDEC_NO_EVENT */
  cdec_f64_out log_p;        /* [W] of the event under the model, all end ids together */
  cdec_f64_out log_z;        /* [N] log of the allowed mass; NaN where the scores hold NaN */
  cdec_f64_out log_end;      /* [N] log of the allowed end ids' mass */
  cdec_f64_out log_residual; /* [N] log of the allowed mass without the drawn tokens; or empty */
} cdec_drawn;
typedef struct cdec_best { /* the k best tokens of N nodes, best first, ties by id */
  cdec_i64_rows_out tokens; /* [N, k], CDEC_NO_EVENT where there are fewer */
  cdec_f64_rows_out log_p;  /* [N, k] */
  cdec_f64_out log_end;     /* [N] */
  cdec_f64_out log_z;       /* [N] */
} cdec_best;

/* Draw one event for every walk at the listed nodes, among each node's allowed ids; `aborting` draws
 * among all events, and one that is not allowed gives CDEC_NO_EVENT. */
CDEC_API int64_t cdec_sample_ragged(const cdec_known *known, const cdec_lists *allowed,
                                    const cdec_ends *ends, const cdec_draws *draws,
                                    int64_t aborting, const cdec_drawn *drawn);
/* The same at unconstrained nodes. */
CDEC_API int64_t cdec_sample_dense(const cdec_known *known, cdec_i64 which, const cdec_ends *ends,
                                   const cdec_draws *draws, const cdec_drawn *drawn);
typedef struct cdec_happened { /* events of W walks at N nodes */
  cdec_i64 tokens; /* [W] as in cdec_drawn */
  cdec_f64 log_p;  /* [W] */
  cdec_f64 log_z;  /* [N] */
  cdec_f64 missed; /* [N] mass outside of what was looked at */
} cdec_happened;
typedef struct cdec_sums { /* of all walks */
  cdec_f64_out log_p;
  cdec_f64_out log_z;
  cdec_f64_out log_kept;
} cdec_sums;
/* Add to the sums of W `walks` at the given nodes what happened there. */
CDEC_API int64_t cdec_walks_add(cdec_i64 walks, cdec_i64 node, const cdec_happened *happened,
                                const cdec_sums *sums);
/* List the most probable tokens and the end event of the listed nodes. */
CDEC_API int64_t cdec_best_events(const cdec_known *known, const cdec_lists *allowed,
                                  const cdec_ends *ends, const cdec_best *best);
/* Write the log of the mass of the allowed ids but for taken[starts[n]:starts[n + 1]] to `residual`
 * [N], a sum over the others, never a difference. */
CDEC_API int64_t cdec_log_residuals(const cdec_known *known, const cdec_lists *allowed,
                                    cdec_i64 starts, cdec_i64 taken, cdec_f64_out residual);
/* Exponentiate values in place, 0 for -inf alone; write sums of blocks; for tests of the two. */
CDEC_API int64_t cdec_exponentiate(cdec_f64_out values, cdec_f64_out sums);
/* Return the first place whose running sum exceeds `target`, the last of positive mass if none. */
CDEC_API int64_t cdec_invert(cdec_f64 values, cdec_f64 sums, double target);
/* Write exp(row[ids] - shift) to `values` [n], sums of blocks to `sums`. */
CDEC_API int64_t cdec_gather_exp(cdec_scores row, double shift, cdec_i32 ids, cdec_f64_out values,
                                 cdec_f64_out sums);

/* ---- sampling: the prefix tree -------------------------------------------------------------------
 *
 * A node is a model context; every column is indexed by it. Children are a list: first_child of the
 * parent, then next_sibling; CDEC_NIL ends it. Masses are natural logs. */
#define CDEC_NIL (-1)
#define CDEC_VISITED 1
#define CDEC_IN_RUN 4
#define CDEC_EXACT 8     /* the node's mass leaves the visited children out */
#define CDEC_TERMINAL 16 /* a text ended here */
#define CDEC_MARK 32     /* scratch */

typedef struct cdec_tree { /* columns [c] by context */
  cdec_i32_out request;
  cdec_i32_out draw; /* the owning one */
  cdec_f64_out edge; /* log P of its token */
  cdec_f64_out mass;
  cdec_f64_out bound;
  cdec_u8_out flags;
  cdec_i32_out first_child;
  cdec_i32_out next_sibling;
} cdec_tree;
typedef struct cdec_arrivals { /* n prefixes of a visit */
  cdec_i64 context;
  cdec_i64 parent; /* -1 at the root */
  cdec_i64 request;
  cdec_i64 draw;
  cdec_f64 log_edge;
  cdec_f64 log_mass;
  cdec_u8 flags;
} cdec_arrivals;
typedef struct cdec_shares { /* of the n prefixes' own mass, and the totals of R requests */
  cdec_f64 log_prefix;
  cdec_f64 log_end;           /* of the end event after each; [0] for none */
  cdec_f64 log_truncated;     /* of what the length limit cuts off there; [0] for none */
  cdec_i32 depth;             /* [c] of contexts */
  cdec_f64_out log_found;     /* [R] summed up of the ends */
  cdec_f64_out log_cut;       /* [R] of what is cut off */
  cdec_i64_out deepest;       /* [R] largest depth */
} cdec_shares;

/* Record prefixes. One that was visited before keeps its place; of repeated visits the lowest draw
 * counts. The shares of new ones are added to their requests' totals. */
CDEC_API int64_t cdec_tree_visit(const cdec_arrivals *arrivals, const cdec_tree *tree,
                                 const cdec_shares *shares);
/* Find the step of each of n paths at which the least mass was allowed, the first of several: log_z
 * [n], 0 where none is known, and place [n], the nodes of the path before it, -1 for none. `last` is
 * where paths end, -1 for no path; `known` [c] holds masses, NaN where not summed up yet. */
CDEC_API int64_t cdec_tree_least_masses(cdec_i64 last, cdec_bool is_whole, cdec_i32 parent,
                                        const cdec_tree *tree, cdec_f64_out known,
                                        cdec_f64_out log_z, cdec_i64_out place);
/* Recompute the bounds of nodes, children before their parents. */
CDEC_API int64_t cdec_tree_update(cdec_i64 order, const cdec_tree *tree, double rounding);
/* Write nodes and all above them, each once, as far as `found` has room; return how many. */
CDEC_API int64_t cdec_tree_with_ancestors(cdec_i64 nodes, cdec_i32 parent, cdec_u8_out flags,
                                          cdec_i64_out found);
/* Write the nodes below a root, itself first, level by level; return how many. */
CDEC_API int64_t cdec_tree_level_order(int64_t root, cdec_i32 first_child, cdec_i32 next_sibling,
                                       cdec_i64_out found);

/* ---- sampling: descents through the tree ---------------------------------------------------------
 *
 * The vector of a node holds the mass of each allowed id times exp(-shift), zero where the id leads
 * to a visited child, and the sums of its blocks; the shift is such that their sum is not faint. */
#define CDEC_MISSING 0 /* no vector here */
#define CDEC_ENDED 1   /* the end event, or a terminal child */
#define CDEC_LEFT 2    /* an unvisited token */
#define CDEC_DRY 3     /* no uniforms left in the block */
#define CDEC_STUCK 4   /* no mass */

typedef struct cdec_slots { /* where the vector of each slot lies in the pool */
  cdec_i64 start;
  cdec_i64 length;
  cdec_i64 first_block;
  cdec_f64_out shift;
} cdec_slots;
typedef struct cdec_pool {
  cdec_i32_out ids;
  cdec_f64_out masses;
  cdec_f64_out blocks;
} cdec_pool;
typedef struct cdec_asked { /* n nodes whose vectors are to be stored, and what is known there */
  cdec_i64 nodes;
  cdec_scores scores;
  cdec_f64 log_normalizer;
  cdec_i64 rows;
  cdec_i64 lists;
  cdec_i64 offsets;
  cdec_i32 allowed;
} cdec_asked;
typedef struct cdec_descending { /* W walks */
  cdec_i64_out node;
  cdec_i64_out depth;
  cdec_f64_out log_p;
  cdec_i64_out token;
  cdec_f64_out log_edge;
  cdec_u8_out status;
} cdec_descending;
typedef struct cdec_uniforms { /* numbers block * width ... of a walk; 1 + s decides token s */
  cdec_f64_rows uniforms;      /* [W, width] */
  cdec_i64 block_of;           /* [W] */
  int64_t width;
} cdec_uniforms;

/* Store the masses of the allowed ids of nodes, those of visited children as zero; `numbers` [n] are
 * slots. Returns 1, or 0 where a row is not normalised. */
CDEC_API int64_t cdec_vectors_build(const cdec_asked *asked, cdec_i64 numbers,
                                    const cdec_tree *tree, cdec_i32 node_token,
                                    const cdec_slots *slots, const cdec_pool *pool);
/* Take tokens that are about to be children out of their nodes' vectors. */
CDEC_API int64_t cdec_vectors_leave(cdec_i64 nodes, cdec_i64 tokens, cdec_i32 slot,
                                    const cdec_slots *slots, const cdec_pool *pool);
/* Write the log residual masses of nodes to `mass` [c]; is_faint [n] where what is left is too little
 * for the shift, so that the vector is to be built anew. */
CDEC_API int64_t cdec_vectors_sum(cdec_i64 nodes, cdec_i32 slot, const cdec_slots *slots,
                                  const cdec_pool *pool, cdec_f64_out mass, cdec_bool_out is_faint);
/* Follow the walks `rows` through visited nodes, each event with probability P * c / sum(P * c). */
CDEC_API int64_t cdec_descend(cdec_i64 rows, const cdec_descending *walks,
                              const cdec_uniforms *numbers, const cdec_tree *tree,
                              cdec_i32 slot, const cdec_slots *slots, const cdec_pool *pool,
                              const cdec_ends *ends);

/* ---- sampling: verification of drafts -------------------------------------------------------------
 *
 * The law claimed for a drafted event is the law it was drawn from: the draft's scores over the same
 * allowed ids, renormalised; the law of the target is masked and renormalised alike. */
typedef struct cdec_law {
  cdec_scores scores;      /* [M, V] */
  cdec_f64 log_normalizer; /* [M] */
} cdec_law;
typedef struct cdec_allowed_lists {
  cdec_i64 offsets; /* [L + 1] */
  cdec_i32 ids;     /* the lists, each sorted */
  cdec_i64 end_ids;
  cdec_bool is_end; /* [V] */
} cdec_allowed_lists;
typedef struct cdec_tested_nodes { /* S nodes at which something was proposed, and T tested walks */
  cdec_i64 rows;                   /* [S] of the target */
  cdec_i64 list_of;                /* [S] */
  cdec_f64 log_end;                /* [S] of the target */
  cdec_i64 starts;                 /* [S + 1] */
  cdec_i64 walks;                  /* [T] by node */
} cdec_tested_nodes;
typedef struct cdec_proposed { /* to W walks */
  cdec_i64 laws;               /* [W] row of the draft's law, -1 for a one-hot law */
  cdec_i64 events;             /* [W] */
} cdec_proposed;
typedef struct cdec_numbers { /* of W walks */
  cdec_f64 tests;             /* [W] uniforms of the tests */
  cdec_f64 picks;             /* [W] and of draws */
  cdec_f64 limits;            /* [W] nats; 0 is lossless */
} cdec_numbers;
typedef struct cdec_chosen {
  cdec_i64_out tokens; /* [W] */
  cdec_f64_out log_p;  /* [W] */
} cdec_chosen;
typedef struct cdec_judged {
  cdec_bool_out accepted; /* [W] */
  cdec_f64_out log_ratio; /* [W] log of target over aim at the event */
  cdec_f64_out spent;     /* [W] min(limit, KL(target || draft)) */
  cdec_f64_out charged;   /* [W] KL(target || aim) */
} cdec_judged;

/* Put the proposals to some walks to the test, node by node; `chosen`, what the target draws by
 * itself, is written where a proposal is allowed. O(length of its list) a walk; walks of one node, law
 * and limit share the comparison. */
CDEC_API int64_t cdec_verify(const cdec_law *target, const cdec_allowed_lists *lists,
                             const cdec_tested_nodes *nodes, const cdec_law *draft,
                             const cdec_proposed *proposed, const cdec_numbers *numbers,
                             const cdec_chosen *chosen, const cdec_judged *judged);
/* Write the laws [n, v] of most acceptance within divergences limits [n], nats, of draft and target
 * [n, v], rows of sum 1; and alpha, beta and KL(target || law) of each to `found` [n, 3]: the law is
 * clip(p, q / beta, q / alpha), where alpha 0 sets no upper bound, beta inf no lower one. */
CDEC_API int64_t cdec_mentored_rows(cdec_f64_rows draft, cdec_f64_rows target, cdec_f64 limits,
                                    cdec_f64_rows_out law, cdec_f64_rows_out found);

/* ---- sampling: texts that loop -------------------------------------------------------------------- */
#define CDEC_NO_LOOP (-1) /* 0 is white space, any other number a period */

/* W growing texts. recent: the last 256 bytes twice over. runs: by period how many bytes equal those
 * a period before, at 0 how many are white space. found: the first loop. */
typedef struct cdec_loops {
  cdec_u8_rows_out recent;
  cdec_u16_rows_out runs;
  cdec_i64_out seen;
  cdec_i64_out found;
} cdec_loops;

/* Take one token a text; of a text that loops nothing more is taken. needed [257]: by period, how many
 * bytes must equal those before. */
CDEC_API int64_t cdec_loops_take(cdec_i64 walks, cdec_i64 tokens, cdec_u8 flat, cdec_i64 offsets,
                                 const cdec_loops *states, cdec_u16 needed);
/* Find the loops of a text, each as far as it goes: first byte, bytes, period; return how many. */
CDEC_API int64_t cdec_loops_find(cdec_u8 text, const cdec_loops *state, cdec_u16 needed,
                                 cdec_i64_rows_out loops);

#ifdef __cplusplus
}
#endif
#endif
