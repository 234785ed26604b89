// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_ASIO_INFORMANT_IPP
#define CAUSEWAY_NET_IMPL_ASIO_INFORMANT_IPP

// Bodies of net/asio_informant.hpp.

#include <causeway/net/asio_informant.hpp>
#include <causeway/net/codec.hpp>
#include <causeway/net/frame.hpp>

#include <algorithm>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL informant::informant(piece_source pieces) : pieces_{std::move(pieces)} {}

CAUSEWAY_DECL void informant::serve(const conversation_ptr& who, std::uint64_t run_id, std::span<const std::byte> body) {
  if (!pieces_) return who->refuse(fail(errc::unsupported, "", "this run tells newcomers nothing"));
  if (talks_.size() >= most_talks) {
    return who->refuse(fail(errc::too_large, "", "too many newcomers ask at once; try later"));
  }
  talks_.insert(who);
  who->on_end([this, who](const error&) { talks_.erase(who); });
  answer(who, run_id, body);
}

CAUSEWAY_DECL void informant::stop() {
  for (const auto& who : std::exchange(talks_, {})) who->stop();
}

CAUSEWAY_DECL void informant::answer(const conversation_ptr& who, std::uint64_t run_id, std::span<const std::byte> body) {
  byte_reader in{body};
  const auto item = in.get<std::uint32_t>();
  const auto offset = in.get<std::uint64_t>();
  if (const auto whole = in.finish("question"); !whole) {
    talks_.erase(who);
    return who->refuse(whole.error());
  }
  const std::vector<std::byte> piece = pieces_(item, offset);
  // The next question is read when this answer is out: a stranger costs one piece of memory, however much it asks for.
  who->say(frame_kind::told, run_id, 0, std::span{piece}.first(std::min(piece.size(), max_piece_bytes)),
           [this, who, run_id] { hear(who, run_id); });
}

CAUSEWAY_DECL void informant::hear(const conversation_ptr& who, std::uint64_t run_id) {
  who->next(question_bytes, patience, [this, who, run_id](const frame_header& h, std::span<const std::byte> body) {
    if (h.kind == frame_kind::ask) return answer(who, run_id, body);
    talks_.erase(who);
    who->refuse(fail(errc::protocol, "", "it stopped asking"));
  });
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_ASIO_INFORMANT_IPP
