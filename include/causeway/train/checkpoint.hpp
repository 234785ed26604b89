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

namespace detail {

/// An object of a trainer's state: in which section it is kept, and how `A` turns it into bytes and back. Without its type,
/// so that saving and restoring are compiled once for all trainers.
template <class A>
struct state_entry {
  std::string section;
  std::uint32_t version;
  void* object;
  result<std::vector<std::byte>> (*to_bytes)(A&, void*);
  result<void> (*from_bytes)(A&, std::span<const std::byte>, void*);
};

template <class A>
struct state_lister {
  std::vector<state_entry<A>> entries;

  template <class T>
  void operator()(std::string section, std::uint32_t version, T& object) {
    entries.push_back({std::move(section), version, &object, to_bytes<T>, from_bytes<T>});
  }

 private:
  template <class T>
  static result<std::vector<std::byte>> to_bytes(A& archiver, void* object) {
    return archiver.to_bytes(*static_cast<T*>(object));
  }
  template <class T>
  static result<void> from_bytes(A& archiver, std::span<const std::byte> bytes, void* object) {
    return archiver.from_bytes(bytes, *static_cast<T*>(object));
  }
};

template <class A>
result<std::vector<io::section>> save_state(parameter_store& store, cut where, const state_lister<A>& state, A& archiver) {
  std::vector<io::section> sections;
  sections.push_back(io::section::of<float>(section_names::parameters, 1, store.values()));
  CAUSEWAY_ASSIGN(auto layout, archiver.to_bytes(store.layout_hash()));
  sections.emplace_back(section_names::layout, 1, std::move(layout));
  CAUSEWAY_ASSIGN(auto made_at, archiver.to_bytes(where));
  sections.emplace_back(section_names::cut, 1, std::move(made_at));
  for (const state_entry<A>& entry : state.entries) {
    CAUSEWAY_ASSIGN(auto bytes, entry.to_bytes(archiver, entry.object));
    sections.emplace_back(entry.section, entry.version, std::move(bytes));
  }
  return sections;
}

}  // namespace detail

/// The state of `trainer` as it stands. The section with the parameters refers to the model's own memory: write the
/// sections before the next step. Memory: a copy of everything else, above all of the optimizers' moments.
template <class Trainer, Archiver A>
[[nodiscard]] result<std::vector<io::section>> save_state(Trainer& trainer, A archiver) {
  detail::state_lister<A> state;
  trainer.for_each_state(state);
  const cut where{trainer.context().step(), trainer.context().round()};
  return detail::save_state(trainer.model().parameters(), where, state, archiver);
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

namespace detail {

template <class A>
result<void> restore_state(parameter_store& store, const io::section_file& file, const state_lister<A>& state,
                           A& archiver) {
  std::vector<io::wanted_section> wanted{
      {section_names::parameters, 1}, {section_names::layout, 1}, {section_names::cut, 1}};
  for (const state_entry<A>& entry : state.entries) wanted.push_back({entry.section, entry.version});
  CAUSEWAY_TRY(file.match(wanted));
  CAUSEWAY_TRY(restore_parameters(store, file, archiver));
  for (const state_entry<A>& entry : state.entries) {
    CAUSEWAY_ASSIGN(const io::section_view found, file.find(entry.section));
    if (const auto read = entry.from_bytes(archiver, found.bytes, entry.object); !read) {
      return fail(read.error().code, entry.section, read.error().message);
    }
  }
  return {};
}

}  // namespace detail

/// Puts the state from a verified checkpoint into `trainer`, which must be built with the same model and policies. A
/// missing, unknown or newer section, or another model, is an error that names both sides and leaves the trainer as it was.
/// Call `trainer.start()` afterwards.
template <class Trainer, Archiver A>
[[nodiscard]] result<void> restore_state(Trainer& trainer, const io::section_file& file, A archiver) {
  detail::state_lister<A> state;
  trainer.for_each_state(state);
  CAUSEWAY_TRY(detail::restore_state(trainer.model().parameters(), file, state, archiver));
  trainer.restored();
  return {};
}

}}  // namespace causeway::CAUSEWAY_ABI

#endif  // CAUSEWAY_TRAIN_CHECKPOINT_HPP
