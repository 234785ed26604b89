// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/dct.cuh>

#include "cuda/dct_case.hpp"

namespace causeway_test {

namespace cuda = causeway::cuda;

causeway::result<dct_result> dct_on_device(const dct_case& c, const std::vector<float>& x) {
  CAUSEWAY_ASSIGN(auto s, cuda::stream::create());
  CAUSEWAY_ASSIGN(auto values, cuda::device_buffer<float>::create(c.n));
  CAUSEWAY_ASSIGN(auto row, cuda::device_buffer<float>::create(c.n));
  cuda::dct transform{c.how};
  dct_result out{std::vector<float>(c.n), std::vector<float>(c.n)};
  CAUSEWAY_TRY(values.write(s, x));
  CAUSEWAY_TRY(transform.forward(s, c.matrices, values.data(), row.data(), c.n));
  CAUSEWAY_TRY(row.read(s, out.coefficients));
  CAUSEWAY_TRY(transform.inverse(s, c.matrices, row.data(), c.n));
  CAUSEWAY_TRY(row.read(s, out.back));
  CAUSEWAY_TRY(s.synchronize());
  return causeway::result<dct_result>{std::move(out)};
}

}  // namespace causeway_test
