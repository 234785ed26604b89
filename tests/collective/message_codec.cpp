// SPDX-License-Identifier: Apache-2.0
#include <causeway/collective/message_codec.hpp>

#include <causeway/compress/block_int8.hpp>
#include <causeway/compress/message.hpp>
#include <causeway/compress/none.hpp>

#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using causeway::compress::matrix_range;
using causeway::compress::message_context;

namespace {

using plain = compress::as_message<compress::none>;
using int8 = compress::as_message<compress::block_int8>;
static_assert(collective::MessageContext<message_context>);
static_assert(collective::MessageCodec<plain, message_context>);
static_assert(collective::MessageCodec<int8, message_context>);
static_assert(!collective::MessageContext<int>);
static_assert(!collective::MessageCodec<compress::none, message_context>);  // a codec of rows, not of messages

std::vector<matrix_range> part(const std::vector<matrix_range>& all, std::size_t begin, std::size_t end) {
  std::vector<matrix_range> pieces;
  collective::detail::matrices_of_part(std::span<const matrix_range>{all}, begin, end, pieces);
  return pieces;
}

}  // namespace

TEST_CASE("message codec: the matrices of a part are whole rows and what is left of the cut ones", "[collective][fast]") {
  const std::vector<matrix_range> all{{3, 4, 5}, {30, 2, 3}};
  CHECK(part(all, 0, 40) == all);
  CHECK(part(all, 3, 23) == std::vector<matrix_range>{{0, 4, 5}});
  CHECK(part(all, 0, 3).empty());
  CHECK(part(all, 23, 30).empty());
  CHECK(part(all, 8, 18) == std::vector<matrix_range>{{0, 2, 5}});                         // rows 1 and 2
  CHECK(part(all, 10, 17) == std::vector<matrix_range>{{0, 1, 3}, {3, 1, 4}});             // ends of two rows
  CHECK(part(all, 10, 20) == std::vector<matrix_range>{{0, 1, 3}, {3, 1, 5}, {8, 1, 2}});  // and one between
  CHECK(part(all, 11, 12) == std::vector<matrix_range>{{0, 1, 1}});                        // within a row
  CHECK(part(all, 20, 33) == std::vector<matrix_range>{{0, 1, 3}, {10, 1, 3}});            // of both matrices
  CHECK(part({{0, 0, 5}, {0, 5, 0}}, 0, 10).empty());
}

TEST_CASE("message codec: the matrices of all parts are those of the row, however it is cut", "[collective][fast]") {
  const std::vector<matrix_range> all{{2, 3, 7}, {23, 1, 4}, {30, 5, 2}};
  for (std::size_t cut = 0; cut <= 42; ++cut) {
    std::vector<int> covered(42), expected(42);
    for (const auto& m : all) {
      for (std::size_t i = 0; i < m.rows * m.columns; ++i) expected[m.offset + i] = 1;
    }
    for (const auto& [begin, end] : {std::pair{std::size_t{0}, cut}, std::pair{cut, std::size_t{42}}}) {
      for (const auto& m : part(all, begin, end)) {
        REQUIRE(m.offset + m.rows * m.columns <= end - begin);
        for (std::size_t i = 0; i < m.rows * m.columns; ++i) ++covered[begin + m.offset + i];
      }
    }
    CHECK(covered == expected);
  }
}

TEST_CASE("message codec: the context of a part has its reference and seeds of its own, the same on all peers",
          "[collective][fast]") {
  thread_pool pool{1};
  const std::vector<float> reference{1, 2, 3, 4, 5, 6};
  const std::vector<matrix_range> all{{0, 2, 3}};
  message_context ctx = {.pool = pool, .matrices = all, .seed = 5, .own_seed = 6, .round = 7, .reference = reference};
  std::vector<matrix_range> pieces, again;
  const auto first = collective::detail::context_of_part(ctx, 0, 0, 3, pieces);
  const auto second = collective::detail::context_of_part(ctx, 1, 3, 6, again);
  CHECK(&second.pool == &pool);
  CHECK(second.round == 7);
  CHECK(second.reference.data() == reference.data() + 3);
  CHECK(second.reference.size() == 3);
  CHECK(second.matrices.data() == again.data());
  CHECK(second.matrices.size() == 1);
  CHECK(first.seed != second.seed);
  CHECK(first.own_seed != second.own_seed);
  ctx.own_seed = 99;  // another peer
  const auto theirs = collective::detail::context_of_part(ctx, 1, 3, 6, pieces);
  CHECK(theirs.seed == second.seed);
  CHECK(theirs.own_seed != second.own_seed);
  ctx.reference = {};
  CHECK(collective::detail::context_of_part(ctx, 1, 3, 6, pieces).reference.empty());
}

TEST_CASE("message codec: rows are cut where blocks end", "[collective][fast]") {
  CHECK(collective::detail::block_of(plain{}) == compress::none{}.block());
  CHECK(collective::detail::block_of(int8{}) == compress::block_int8{}.block());
}
