package dynamostore_test
import ("testing";"os";"github.com/aws/aws-sdk-go-v2/service/dynamodb";"github.com/aws/aws-sdk-go-v2/aws";"fmt";"context";"net/http";"io";"bytes";"time")
type inMem struct{ next http.RoundTripper }
func (t inMem) RoundTrip(r *http.Request)(*http.Response,error){
 if r.Body!=nil { b,err:=io.ReadAll(r.Body); r.Body.Close(); if err!=nil {return nil,err}
  c:=*r; c.Body=io.NopCloser(bytes.NewReader(b)); c.ContentLength=int64(len(b)); r=&c }
 return t.next.RoundTrip(r)
}
func TestZZ(t *testing.T){
 url:=os.Getenv("MYOSIN_MINISTACK_URL")
 once:=func(o *dynamodb.Options){o.Retryer=aws.NopRetryer{}}
 for _,c:=range []*dynamodb.Client{client(url), dynamodb.New(client(url).Options(),func(o *dynamodb.Options){o.HTTPClient=&http.Client{Transport:inMem{&http.Transport{}}}})} {
 n:=0; st:=time.Now()
 for range 20000 { _,err:=c.ListTables(context.Background(),&dynamodb.ListTablesInput{},once); if err!=nil { n++ } }
 fmt.Println("errors",n,time.Since(st)) }
}
