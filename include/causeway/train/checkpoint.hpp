// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_CHECKPOINT_HPP
#define CAUSEWAY_TRAIN_CHECKPOINT_HPP

// A trainer's state as named sections of a checkpoint, and back. Saving, loading and going on is bit-equal to not having
// stopped, with the same number of threads.

#include <causeway/core/concepts.hpp>
#include <causeway/core/result.hpp>
#include <causeway/io/section_file.hpp>
#include <causeway/tensor/parameters.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI {

/// Turns a value with `serialize` into bytes and back; io::archiver is one, io::cereal_archiver another.
template <class A>
concept Archiver = requires(A& a, std::uint64_t& value, std::span<const std::byte> bytes) {
  { a.to_bytes(value) } -> ConvertibleTo<result<std::vector<std::byte>>>;
  { a.from_bytes(bytes, value) } -> std::same_as<result<void>>;
};

namespace detail {

struct section_names {
  static constexpr const char* parameters = "model.parameters";
  static constexpr const char* layout = "model.layout";
  static constexpr const char* cut = "cut";
};

}  // namespace detail

/// Where in the run a checkpoint was made. The checkpoints of all peers together are a consistent cut if their rounds are
/// equal: within a round peers are on their own, so their steps may differ.
struct cut {
  std::uint64_t step = 0;
  std::uint64_t round = 0;

  template <class Archive>
  void serialize(Archive& ar) {
    ar(step, round);
  }
};

/// Where `file` was made.
template <Archiver A>
[[nodiscard]] result<cut> read_cut(const io::section_file& file, A archiver) {
  CAUSEWAY_ASSIGN(const io::section_view found, file.find(detail::section_names::cut));
  cut where;
  CAUSEWAY_TRY(archiver.from_bytes(found.bytes, where));
  return where;
}

/// The state of `trainer` as it stands. The section with the parameters refers to the model's own memory: write the
/// sections before the next step. Memory: a copy of everything else, above all of the optimizers' moments.
template <class Trainer, Archiver A>
[[nodiscard]] result<std::vector<io::section>> save_state(Trainer& trainer, A archiver) {
  auto& store = trainer.model().parameters();
  std::vector<io::section> sections;
  sections.push_back(io::section::of<float>(detail::section_names::parameters, 1, store.values()));
  CAUSEWAY_ASSIGN(auto layout, archiver.to_bytes(store.layout_hash()));
  sections.emplace_back(detail::section_names::layout, 1, std::move(layout));
  CAUSEWAY_ASSIGN(auto where, archiver.to_bytes(cut{trainer.context().step(), trainer.context().round()}));
  sections.emplace_back(detail::section_names::cut, 1, std::move(where));
  result<void> outcome;
  trainer.for_each_state([&](const std::string& name, std::uint32_t version, auto& object) {
    if (!outcome) return;
    auto bytes = archiver.to_bytes(object);
    if (!bytes) {
      outcome = std::move(bytes).error();
    } else {
      sections.emplace_back(name, version, std::move(bytes).value());
    }
  });
  if (!outcome) return std::move(outcome).error();
  return sections;
}

/// Reads only the parameters, into the store of a model built alike: for generating and exporting. errc::wrong_model if the
/// shapes differ.
template <Archiver A>
[[nodiscard]] result<void> restore_parameters(parameter_store& store, const io::section_file& file, A archiver) {
  CAUSEWAY_ASSIGN(const io::section_view layout, file.find(detail::section_names::layout));
  std::uint64_t hash = 0;
  CAUSEWAY_TRY(archiver.from_bytes(layout.bytes, hash));
  if (hash != store.layout_hash()) {
    return fail(
        errc::wrong_model, detail::section_names::layout,
        "the checkpoint is of a model with other shapes; use the options that it was trained with, or another run name");
  }
  CAUSEWAY_TRY(file.copy_to(detail::section_names::parameters, store.values()));
  store.touch();
  return {};
}

/// Puts the state from a verified checkpoint into `trainer`, which must be built with the same model and policies. A
/// missing, unknown or newer section, or another model, is an error that names both sides and leaves the trainer as it was.
/// Call `trainer.start()` afterwards.
template <class Trainer, Archiver A>
[[nodiscard]] result<void> restore_state(Trainer& trainer, const io::section_file& file, A archiver) {
  auto& store = trainer.model().parameters();
  using names = detail::section_names;
  std::vector<io::wanted_section> wanted{{names::parameters, 1}, {names::layout, 1}, {names::cut, 1}};
  trainer.for_each_state([&](const std::string& name, std::uint32_t version, auto&) { wanted.push_back({name, version}); });
  CAUSEWAY_TRY(file.match(wanted));

  CAUSEWAY_TRY(restore_parameters(store, file, archiver));

  result<void> outcome;
  trainer.for_each_state([&](const std::string& name, std::uint32_t, auto& object) {
    if (!outcome) return;
    const auto found = file.find(name);
    outcome = found ? archiver.from_bytes(found->bytes, object) : result<void>{found.error()};
  });
  if (outcome) trainer.restored();
  return outcome;
}

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_TRAIN_CHECKPOINT_HPP
