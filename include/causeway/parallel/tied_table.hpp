// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_TIED_TABLE_HPP
#define CAUSEWAY_PARALLEL_TIED_TABLE_HPP

// A token table that is the output layer too (Press and Wolf, EACL 2017) is held at both ends of a model that is cut into
// stages. Where blocks have holders of their own, the table's are those of the first block and those of the last; it goes
// with either of them.

#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/nn/declaration.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/parallel/elastic/block_moves.hpp>
#include <causeway/stage/layout.hpp>
#include <causeway/tensor/parameters.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// The table's place in a flat buffer of the model, padding included; empty where no table is shared, or none is held.
template <class Model>
[[nodiscard]] std::span<float> table_in(Model& model, std::span<float> flat) {
  const std::size_t table = model.tied_table();
  if (table == nn::not_held) return {};
  const auto segments = model.parameters().segments();
  const auto from = static_cast<std::size_t>(segments[table].offset);
  const std::size_t to = table + 1 < segments.size() ? static_cast<std::size_t>(segments[table + 1].offset) : flat.size();
  return flat.subspan(from, to - from);
}

/// errc::unsupported where the ends of a model share a table, but would be at different steps.
template <class Model>
result<void> check_untied(const Model& model, std::string_view who) {
  if (!model.shares_table()) return {};
  return fail(
      errc::unsupported, std::string{who},
      "first and last stage would share a table, and be at different steps; build the model with untied embeddings, "
      "or make steps with a flush, as by stage::one_f_one_b");
}

/// As `blocks_in`, without a tied table, which comes first in its buffer.
template <class Model>
[[nodiscard]] std::span<float> untied_blocks_in(Model& model, std::span<float> flat, const nn::block_range& range) {
  std::span<const parameter_segment> segments = model.parameters().segments();
  if (model.tied_table() != nn::not_held) {
    CAUSEWAY_EXPECT(model.tied_table() == 0);
    segments = segments.subspan(1);
  }
  return blocks_in(flat, segments, range, model.blocks());
}

/// What a block takes along when it moves: it is complete without any other block. Calls `f` with one or two pieces of
/// `flat`; a tied table goes with the first block, in front, and with the last, behind. Precondition: the block is held.
template <class Model, class F>
void for_pieces_of(Model& model, std::span<float> flat, std::int64_t block, F&& f) {
  f(blocks_in(flat, model.parameters().segments(), {block, block + 1}, model.blocks()));
  const bool last = block > 0 && block + 1 == model.blocks();
  if (const auto table = table_in(model, flat); last && !table.empty()) f(table);
}

/// The same of a row that has a value for each of the model's parameters.
template <class Model, class F>
void for_pieces_of(Model& model, const parameter_row& row, std::int64_t block, F&& f) {
  const std::span<float> flat = model.parameters().values();
  for_pieces_of(model, flat, block, [&](std::span<float> part) {
    row.visit(static_cast<std::size_t>(part.data() - flat.data()), part.size(), f);
  });
}

/// Who holds the table: those who hold the first block, then those who hold only the last.
CAUSEWAY_DECL [[nodiscard]] std::vector<std::uint64_t> holders_of_table(const stage::layout& l, std::int64_t layers);

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/impl/tied_table.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_TIED_TABLE_HPP
