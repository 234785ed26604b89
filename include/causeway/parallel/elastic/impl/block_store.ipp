// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_IMPL_BLOCK_STORE_IPP
#define CAUSEWAY_PARALLEL_ELASTIC_IMPL_BLOCK_STORE_IPP

#include <causeway/parallel/elastic/block_store.hpp>

#include <algorithm>
#include <cstring>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

CAUSEWAY_DECL block_store::block_store(io::any_storage storage, std::string folder)
    : storage_{std::move(storage)}, folder_{std::move(folder)} {}

CAUSEWAY_DECL result<void> block_store::save(const step_record& state, std::int64_t block,
                                             std::span<const float> contents) {
  std::vector<io::section> sections;
  sections.emplace_back("state", 1, std::as_bytes(std::span{&state, 1}));
  sections.emplace_back("block", 1, std::as_bytes(contents));
  return directory(block).save(state.step, sections, 0);
}

CAUSEWAY_DECL result<std::uint64_t> block_store::identity(std::uint64_t fresh) {
  const std::string path = folder_ + "/identity";
  std::uint64_t id = 0;
  for (const bool may_write : {true, false}) {
    const auto bytes = storage_.read(path);
    if (bytes && bytes->size() == sizeof id) {
      std::memcpy(&id, bytes->data(), sizeof id);
      return id;
    }
    if (!may_write) break;
    CAUSEWAY_TRY(storage_.write_atomic(path, [&](const io::byte_sink& sink) {
      return sink(std::as_bytes(std::span{&fresh, 1}));
    }));
  }
  return fail(errc::io_failed, path, "it cannot be read back");
}

CAUSEWAY_DECL result<saved_states> block_store::found(std::int64_t layers) {
  std::vector<saved_blocks> all;
  for (std::int64_t b = 0; b < std::min(layers, saved_blocks::most); ++b) {
    CAUSEWAY_ASSIGN(const auto steps, directory(b).steps());
    for (const std::uint64_t step : steps) {
      step_record state;
      const auto file = directory(b).load(step);
      if (!file || !file->copy_to("state", std::span{&state, 1}) || state.step != step || step == 0) continue;
      auto at = std::find_if(all.begin(), all.end(), [&](const saved_blocks& s) { return s.state == state; });
      if (at == all.end()) at = all.insert(all.end(), {.state = state});
      at->add(b);
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.state.step > b.state.step; });
  saved_states newest{};
  std::copy_n(all.begin(), std::min(all.size(), newest.size()), newest.begin());
  return newest;
}

CAUSEWAY_DECL result<std::optional<step_record>> block_store::newest(std::int64_t layers) {
  CAUSEWAY_ASSIGN(const saved_states here, found(layers));
  return newest_together({&here, 1}, layers);
}

CAUSEWAY_DECL saved_blocks blocks_of(const saved_states& all, const step_record& state) {
  const auto at = std::find_if(all.begin(), all.end(), [&](const saved_blocks& s) { return s.state == state; });
  return at != all.end() ? *at : saved_blocks{.state = state};
}

CAUSEWAY_DECL std::optional<step_record> newest_together(std::span<const saved_states> peers, std::int64_t layers) {
  const auto whole = [&](const step_record& state) {
    for (std::int64_t b = 0; b < layers; ++b) {
      const auto has = [&](const saved_blocks& s) { return s.state == state && s.has(b); };
      const auto saves = [&](const saved_states& all) { return std::any_of(all.begin(), all.end(), has); };
      if (std::none_of(peers.begin(), peers.end(), saves)) return false;
    }
    return true;
  };
  std::optional<step_record> newest;
  for (const saved_states& all : peers) {
    for (const saved_blocks& s : all) {
      if (s.state.step > (newest ? newest->step : 0) && whole(s.state)) newest = s.state;
    }
  }
  return newest;
}

CAUSEWAY_DECL result<std::vector<float>> block_store::load(const step_record& state, std::int64_t block) {
  CAUSEWAY_ASSIGN(const io::section_file file, directory(block).load(state.step));
  CAUSEWAY_ASSIGN(const io::section_view found, file.find("block"));
  std::vector<float> contents(found.bytes.size() / sizeof(float));
  CAUSEWAY_TRY(load(state, block, contents));
  return contents;
}

CAUSEWAY_DECL result<void> block_store::load(const step_record& state, std::int64_t block, std::span<float> contents) {
  CAUSEWAY_ASSIGN(const io::section_file file, directory(block).load(state.step));
  step_record found;
  CAUSEWAY_TRY(file.copy_to("state", std::span{&found, 1}));
  if (!(found == state)) return fail(errc::not_found, directory(block).directory(), "another state of this step is stored");
  return file.copy_to("block", contents);
}

CAUSEWAY_DECL io::checkpoint_directory<io::any_storage> block_store::directory(std::int64_t block) const {
  return io::checkpoint_directory<io::any_storage>{storage_, folder_ + "/block-" + std::to_string(block), 2};
}

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ELASTIC_IMPL_BLOCK_STORE_IPP
