// SPDX-License-Identifier: Apache-2.0
// Presets with their authors' names, against independent references: tests/golden/<preset>/reference.py names the sources.
#include <causeway/presets/compressed.hpp>
#include <causeway/presets/local_updates.hpp>

#include "support/traced.hpp"

using namespace causeway;
using presets::make;
namespace traced = support::traced;

namespace {

struct rising {
  static float at(std::uint64_t step) { return 0.01F * static_cast<float>(1 + step); }
};

}  // namespace

TEST_CASE("presets: SparseLoCo is its authors'", "[presets][fast]") {
  traced::replay("sparse_loco", 2, optim::constant{0.5F}, 0.0F,
                 [] { return make(presets::sparse_loco_options{.local_steps = 2, .k = 20}); });
}

TEST_CASE("presets: SparseLoCo with the mean over all is its paper's", "[presets][fast]") {
  traced::replay("sparse_loco/over_all", 2, optim::constant{0.5F}, 0.0F,
                 [] { return make(presets::sparse_loco_options{.local_steps = 2, .k = 20, .over_all = true}); });
}

TEST_CASE("presets: SparseLoCo that clips to the median norm is Templar's", "[presets][fast]") {
  traced::replay("sparse_loco/clipped", 2, optim::constant{0.5F}, 0.0F,
                 [] { return make(presets::sparse_loco_options{.local_steps = 2, .k = 20, .clips = true}); });
}

TEST_CASE("presets: DeMo is its authors'", "[presets][fast]") {
  traced::replay("demo", 1, rising{}, 0.1F, [] { return make(presets::demo_options{}); });
}

TEST_CASE("presets: SparseLoCo sends the coordinates and codes of its authors", "[presets][fast]") {
  const auto expected = traced::read<std::int32_t>("sparse_loco", "message.bin");
  const auto count = static_cast<std::size_t>(expected[0]);
  traced::model model{0};
  const auto segments = model.parameters().segments();
  const auto cuts = axis::whole{}.cut(segments, model.parameters().values().size());
  REQUIRE(cuts);
  std::vector<std::size_t> places;  // of the trace's values in the row, where tensors are padded
  std::vector<float> row(model.parameters().values().size());
  for (std::size_t s = 0; s < segments.size(); ++s) {
    for (std::int64_t i = 0; i < segments[s].size(); ++i) {
      const auto at = static_cast<std::uint32_t>(places.size());
      places.push_back(static_cast<std::size_t>(segments[s].offset + i));
      row[places.back()] = 0.5F * traced::shapes[s].scale * (traced::gradient(0, 0, at) + traced::gradient(0, 1, at));
    }
  }
  thread_pool pool{1};
  const compress::message_context ctx{.pool = pool, .matrices = cuts->front().matrices};
  const presets::detail::sparse_loco_codec codec{{}, compress::top_k{{.k = 20}}};
  std::vector<std::byte> bytes(codec.most_bytes(ctx, row.size()));
  bytes.resize(codec.encode(ctx, row, bytes));

  std::vector<std::uint32_t> kept;
  const auto used = codec.choice().read(ctx, bytes, row.size(), kept);
  REQUIRE(used);
  std::span<const std::byte> rest = std::span{bytes}.subspan(*used);
  std::size_t next = 0, wrong = 0, first = 0;
  for (const compress::matrix_range& m : cuts->front().matrices) {
    const std::size_t end = m.offset + m.rows * m.columns;
    while (first < kept.size() && kept[first] < m.offset) ++first;  // padding
    std::size_t here = 0;
    while (first + here < kept.size() && kept[first + here] < end) ++here;
    for (std::size_t i = 0; i < here; ++i, ++next) {
      const auto code = std::to_integer<int>(rest[16 + i / 4]) >> (2 * (i % 4)) & 3;
      wrong += kept[first + i] != places[static_cast<std::size_t>(expected[1 + next])] ? 1U : 0U;
      wrong += code != expected[1 + count + next] ? 1U : 0U;
    }
    rest = rest.subspan(codec.quantiser().encoded_size(here));
    first += here;
  }
  CHECK(next == count);
  CHECK(wrong == 0);
}

TEST_CASE("presets: MuLoCo is its authors'", "[presets][fast]") {
  traced::replay("muloco", 2, optim::constant{0.5F}, 0.0F, [] { return make(presets::muloco_options{.local_steps = 2}); });
}

TEST_CASE("presets: DisTrO is Psyche's", "[presets][fast]") {
  traced::replay(
      "distro", 1, optim::constant{0.02F}, 0.0F, [] { return make(presets::distro_options{}); }, 0.5F);
}
