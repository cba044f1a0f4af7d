// Runs the kernels that `cargo test -p bsr-simulator --test wgmma -- --ignored` has written (with what the simulator
// computed) on a GPU and compares element by element.
//   BSR_SIM_DUMP=/tmp/agree cargo test --release -p bsr-simulator --test wgmma -- --ignored
//   nvcc -arch=sm_90a -o agree agree.cu -lcuda && ./agree /tmp/agree
#include <cuda.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cmath>
#include <vector>
#include <string>
#define C(x) do{int e=(x);if(e){printf("line %d err %d\n",__LINE__,e);exit(1);}}while(0)
std::vector<char> rd(std::string p){FILE*f=fopen(p.c_str(),"rb");std::vector<char> v;char b[65536];size_t n;while((n=fread(b,1,65536,f)))v.insert(v.end(),b,b+n);fclose(f);return v;}
int main(int c,char**v){std::string d=v[1];C(cuInit(0));CUdevice dev;C(cuDeviceGet(&dev,0));CUcontext x;C(cuDevicePrimaryCtxRetain(&x,dev));C(cuCtxSetCurrent(x));
FILE*f=fopen((d+"/list").c_str(),"r");int id,sm,n;long q[12];int cases=0,bits=0,bad=0;double worst=0;
while(fscanf(f,"%d %d %d",&id,&sm,&n)==3){for(int i=0;i<12;i++)if(fscanf(f,"%ld",q+i)!=1)return 1;
 auto ptx=rd(d+"/"+std::to_string(id)+".ptx");ptx.push_back(0);CUmodule m;C(cuModuleLoadData(&m,ptx.data()));CUfunction k;C(cuModuleGetFunction(&k,m,"k"));
 C(cuFuncSetAttribute(k,CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,sm));
 auto blob=rd(d+"/"+std::to_string(id)+".bin");char*p=blob.data();std::vector<char> part[4];for(auto&t:part){unsigned l;memcpy(&l,p,4);t.assign(p+4,p+4+l);p+=4+l;}
 CUdeviceptr b[4];for(int i=0;i<4;i++){C(cuMemAlloc(b+i,part[i].size()));if(i<3)C(cuMemcpyHtoD(b[i],part[i].data(),part[i].size()));else C(cuMemsetD8(b[i],0xff,part[i].size()));}
 CUtensorMap t[2];for(int i=0;i<2;i++){long*r=q+6*i;cuuint64_t dm[2]={(cuuint64_t)r[0],(cuuint64_t)r[1]},st[1]={(cuuint64_t)r[2]};cuuint32_t bx[2]={(unsigned)r[3],(unsigned)r[4]},es[2]={1,1};
  C(cuTensorMapEncodeTiled(t+i,CU_TENSOR_MAP_DATA_TYPE_FLOAT16,2,(void*)b[i],dm,st,bx,es,CU_TENSOR_MAP_INTERLEAVE_NONE,(CUtensorMapSwizzle)r[5],CU_TENSOR_MAP_L2_PROMOTION_NONE,CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));}
 void*a[4]={t,t+1,b+2+1,b+2};C(cuLaunchKernel(k,1,1,1,128,1,1,sm,0,a,0));C(cuCtxSynchronize());
 std::vector<float> o(64*n);C(cuMemcpyDtoH(o.data(),b[3],256*n));float*w=(float*)part[3].data();int diff=0;double e=0,s=0;for(int i=0;i<64*n;i++){diff+=memcmp(&o[i],w+i,4)!=0;e+=pow((double)o[i]-w[i],2);s+=pow((double)w[i],2);}
 double rel=sqrt(e/s);cases++;bits+=diff==0;if(!(rel<1e-6)){bad++;printf("case %d rel %g diff %d of %d\n",id,rel,diff,64*n);}if(rel>worst)worst=rel;
 for(auto y:b)cuMemFree(y);cuModuleUnload(m);}
printf("%d cases, %d bit-equal, %d disagree, worst relative %g\n",cases,bits,bad,worst);}
