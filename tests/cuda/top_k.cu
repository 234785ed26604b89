// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/top_k.cuh>

#include "cuda/device_functions.hpp"

namespace causeway_test {

namespace cuda = causeway::cuda;

causeway::result<void> select_on_device(const causeway::compress::top_k& choice,
                                        const causeway::compress::message_context& ctx, const std::vector<float>& row,
                                        std::vector<std::uint32_t>& kept, std::vector<std::byte>& bytes) {
  CAUSEWAY_ASSIGN(auto s, cuda::stream::create());
  CAUSEWAY_ASSIGN(auto device_row, cuda::device_buffer<float>::create(row.size()));
  CAUSEWAY_ASSIGN(auto device_kept, cuda::device_buffer<std::uint32_t>::create(kept.size()));
  CAUSEWAY_ASSIGN(auto room, cuda::device_buffer<std::byte>::create((bytes.size() + 3) / 4 * 4));
  CAUSEWAY_TRY(device_row.write(s, row));
  const std::span<std::byte> message{room.data(), bytes.size()};
  CAUSEWAY_TRY(cuda::select(s, choice, ctx, device_row.data(), row.size(), device_kept.data(), message));
  CAUSEWAY_TRY(device_kept.read(s, kept));
  std::vector<std::byte> all(room.size());
  CAUSEWAY_TRY(room.read(s, all));
  CAUSEWAY_TRY(s.synchronize());
  bytes.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(bytes.size()));
  return {};
}

}  // namespace causeway_test
