// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_IMPL_SAMPLE_BUFFERS_IPP
#define CAUSEWAY_STAGE_IMPL_SAMPLE_BUFFERS_IPP

#include <causeway/stage/sample_buffers.hpp>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage {

CAUSEWAY_DECL void sample_buffer::seal() noexcept {
  const auto hash = static_cast<std::uint32_t>(hash_bytes(std::as_bytes(std::span{bytes})));
  tag = hash == 0 ? 1 : hash;
}

CAUSEWAY_DECL bool sample_buffers::knows(const sample_key& key) const {
  return buffers_.contains(key) || staged_.contains(key);
}

CAUSEWAY_DECL const sample_buffer* sample_buffers::find(const sample_key& key) const {
  const auto at = buffers_.find(key);
  return at == buffers_.end() ? nullptr : &at->second;
}

CAUSEWAY_DECL void sample_buffers::stage(const sample_key& key, sample_buffer buffer, std::uint64_t seed,
                                         std::size_t place) {
  const auto [at, fresh] = staged_.try_emplace(key);
  change& c = at->second;
  if (fresh && !buffers_.contains(key)) new_bytes_ += buffer.bytes.size();
  if (fresh || std::tie(seed, place) >= std::tie(c.seed, c.place)) c = {std::move(buffer), seed, place};
}

CAUSEWAY_DECL void sample_buffers::forget_staged() {
  staged_.clear();
  new_bytes_ = 0;
}

CAUSEWAY_DECL void sample_buffers::commit() {
  for (auto& [key, next] : staged_) {
    sample_buffer& buffer = buffers_[key];
    bytes_ = bytes_ - buffer.bytes.size() + next.buffer.bytes.size();
    buffer = std::move(next.buffer);
  }
  forget_staged();
}

CAUSEWAY_DECL void sample_buffers::forget(std::uint32_t edge) {
  for (auto at = buffers_.lower_bound({edge, 0}); at != buffers_.end() && at->first.edge == edge;) {
    bytes_ -= at->second.bytes.size();
    at = buffers_.erase(at);
  }
}

}}}  // namespace causeway::CAUSEWAY_ABI::stage

#endif  // CAUSEWAY_STAGE_IMPL_SAMPLE_BUFFERS_IPP
