// SPDX-License-Identifier: Apache-2.0
#include <causeway/optim/optimizer.hpp>

#include "support/catch.hpp"
#include "support/optimizer_cases.hpp"

#include <string>
#include <utility>

using namespace causeway;
using namespace causeway::optim;

namespace {

struct no_step {
  static constexpr std::string_view name = "no step";
  void reset(std::int64_t) {}
};
struct step_returns_something : no_step {
  int step(thread_pool&, parameter_view, step_options) { return 0; }
};
struct complete : no_step {
  void step(thread_pool&, parameter_view, step_options) {}
};

static_assert(Optimizer<complete>);
static_assert(!Optimizer<no_step>);
static_assert(!Optimizer<step_returns_something>);
static_assert(!Optimizer<int>);

}  // namespace

TEST_CASE("optimizer: pieces cover the flat buffers once and decay all but vectors", "[optim][fast]") {
  parameter_store store;
  store.add("gain", parameter_kind::vector, 1, 20);
  store.add("a", parameter_kind::matrix, 3, 7);
  store.add("b", parameter_kind::embedding, 2, 16);
  store.add("bias", parameter_kind::vector, 1, 5);
  store.add("gain2", parameter_kind::vector, 1, 5);
  store.add("big", parameter_kind::matrix, 300, 101);
  store.allocate();
  for (const unsigned threads : {1U, 2U, 3U}) {
    thread_pool pool{threads};
    std::vector<int> visits(static_cast<std::size_t>(store.length()), 0);
    std::vector<int> decayed(visits.size(), 0);
    optim::detail::for_all_pieces(pool, store.view(), [&](std::int64_t begin, std::int64_t count, bool decay) {
      for (std::int64_t i = begin; i < begin + count; ++i) {
        ++visits[static_cast<std::size_t>(i)];
        decayed[static_cast<std::size_t>(i)] = decay ? 1 : 0;
      }
    });
    CHECK(std::all_of(visits.begin(), visits.end(), [](int n) { return n == 1; }));
    for (const auto& s : store.segments()) {
      INFO(s.name);
      CHECK(decayed[static_cast<std::size_t>(s.offset)] == (s.kind == parameter_kind::vector ? 0 : 1));
      CHECK(decayed[static_cast<std::size_t>(s.offset + s.size() - 1)] == (s.kind == parameter_kind::vector ? 0 : 1));
    }
  }
}

TEST_CASE("optimizer: without segments everything is one decayed piece", "[optim][fast]") {
  thread_pool pool;
  std::vector<float> values(100), gradients(100);
  int pieces = 0;
  optim::detail::for_all_pieces(pool, {values, gradients, {}}, [&](std::int64_t begin, std::int64_t count, bool decay) {
    ++pieces;
    CHECK(begin == 0);
    CHECK(count == 100);
    CHECK(decay);
  });
  CHECK(pieces == 1);
}

TEST_CASE("optimizer: state of more than one piece comes back from an archive", "[optim][fast]") {
  constexpr std::int64_t length = (1 << 20) + 77;
  state_buffer before{length};
  for (std::int64_t i = 0; i < length; ++i) before.data()[i] = test::draw(i);
  test::memory_archive archive;
  archive(before);
  archive.reading = true;
  state_buffer after;  // of another length: takes the archive's
  archive(after);
  REQUIRE(after.size() == length);
  CHECK(std::equal(before.span().begin(), before.span().end(), after.span().begin()));
}
